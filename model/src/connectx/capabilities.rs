//! What a virtual ConnectX can, and where its bounds are.

use crate::rc::Mtu;

/// The bounds of a NIC. [`Default`] is a ConnectX-5 as the stock Linux stack was seen to accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The binary logarithm of the number of queue pairs.
    pub log_max_queue_pairs: u8,
    /// The binary logarithm of the slots of a send ring, and of the entries of a receive ring.
    pub log_max_ring: u8,
    /// The binary logarithm of the number of completion queues.
    pub log_max_completion_queues: u8,
    /// The binary logarithm of the entries of a completion ring.
    pub log_max_completion_ring: u8,
    /// The binary logarithm of the number of memory keys.
    pub log_max_keys: u8,
    /// The binary logarithm of the number of protection domains.
    pub log_max_protection_domains: u8,
    /// The number of UAR pages.
    pub max_uars: u32,
    /// The most bytes of a send entry.
    pub max_send_entry: u16,
    /// The most bytes of a receive entry.
    pub max_receive_entry: u16,
    /// The binary logarithm of the most bytes of a message.
    pub log_max_message: u8,
    /// The binary logarithm of the reads and atomics that a queue pair may have coming in.
    pub log_max_responder_resources: u8,
    /// The binary logarithm of the reads and atomics that a queue pair may have going out.
    pub log_max_outstanding_reads: u8,
    /// The most bytes of a packet's payload that the port can.
    pub max_mtu: Mtu,
    /// The number of completion vectors.
    pub completion_vectors: u32,
    /// BlueFlame: send registers take whole entries, and can be mapped write-combining.
    pub blue_flame: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities {
            log_max_queue_pairs: 17,
            log_max_ring: 15,
            log_max_completion_queues: 17,
            log_max_completion_ring: 22,
            log_max_keys: 20,
            log_max_protection_domains: 20,
            max_uars: 1 << 16,
            max_send_entry: 1024,
            max_receive_entry: 512,
            log_max_message: 30,
            log_max_responder_resources: 4,
            log_max_outstanding_reads: 4,
            max_mtu: Mtu::B4096,
            completion_vectors: 2,
            blue_flame: true,
        }
    }
}
