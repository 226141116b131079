//! What a NIC has seen and done, for tests and for people.

use crate::network::counters;

counters! {
    /// Counts of what a NIC has seen and done since it was made.
    pub struct Counters {
        /// Requests of the firmware channel.
        pub requests: u64,
        /// Requests that were refused.
        pub requests_refused: u64,
        /// Commands of the RoCE engine.
        pub commands: u64,
        /// Commands that were refused.
        pub commands_refused: u64,
        /// Stores to doorbell pages.
        pub doorbells: u64,
        /// Doorbells that nothing listens to: wrong page, number, kind, or not valid.
        pub stray_doorbells: u64,
        /// Doorbells that were dropped because their position is not possible.
        pub dropped_doorbells: u64,
        /// Doorbells that came while as many waited as can.
        pub lost_doorbells: u64,
        /// Work entries read from send rings.
        pub send_entries: u64,
        /// Work entries read from receive rings.
        pub receive_entries: u64,
        /// Work entries that were malformed.
        pub malformed_entries: u64,
        /// Entries whose place in the message table says something else.
        pub wrong_message_table: u64,
        /// Completions written.
        pub completions: u64,
        /// Completions written that were errors.
        pub error_completions: u64,
        /// Completions that did not fit their ring.
        pub overruns: u64,
        /// Notifications written.
        pub notifications: u64,
        /// Interrupts raised.
        pub interrupts: u64,
        /// Accesses to memory that were refused: key, bounds, right, protection domain.
        pub refused_accesses: u64,
        /// Contexts that were not in the backing store any more as they had been put there.
        pub lost_contexts: u64,
        /// Packets sent.
        pub packets_sent: u64,
        /// Packets sent that had been sent before: they, or what acknowledged them, were lost.
        pub packets_sent_again: u64,
        /// Packets received by a queue pair.
        pub packets_received: u64,
        /// Packets dropped: no such queue pair, wrong peer, no receive, port down.
        pub packets_dropped: u64,
        /// Frames sent.
        pub frames_sent: u64,
        /// Frames received.
        pub frames_received: u64,
        /// Frames dropped: nobody asked for them, or no buffer.
        pub frames_dropped: u64,
    }
}
