//! What a NIC has seen and done, for tests and for people.

use crate::network::counters;

counters! {
    /// Counts of what a NIC has seen and done since it was made.
    pub struct Counters {
        /// Stores to doorbell registers, of either size.
        pub register_stores: u64,
        /// Stores that announced send entries.
        pub send_doorbells: u64,
        /// Stores that armed a completion queue.
        pub arm_doorbells: u64,
        /// Entries that came in a BlueFlame copy.
        pub blue_flame_entries: u64,
        /// Doorbells that no queue listens to: wrong page, offset, number or state.
        pub stray_doorbells: u64,
        /// Doorbells that the doorbell record lagged behind: for entries that it did not cover yet, or
        /// an arm that it did not hold.
        pub record_behind_register: u64,
        /// Work entries read from send rings.
        pub send_entries: u64,
        /// Work entries read from receive rings.
        pub receive_entries: u64,
        /// Work entries that were malformed.
        pub malformed_entries: u64,
        /// Completions written.
        pub completions: u64,
        /// Completions written that were errors.
        pub error_completions: u64,
        /// Completions that did not fit their ring.
        pub overruns: u64,
        /// Completion events raised.
        pub completion_events: u64,
        /// Asynchronous events raised.
        pub asynchronous_events: u64,
        /// Accesses to memory that were refused: key, bounds, right, protection domain.
        pub refused_accesses: u64,
        /// Packets sent.
        pub packets_sent: u64,
        /// Packets sent that had been sent before: they, or what acknowledged them, were lost.
        pub packets_sent_again: u64,
        /// Packets received by a queue pair.
        pub packets_received: u64,
        /// Packets dropped: no such queue pair, wrong peer, port down.
        pub packets_dropped: u64,
    }
}
