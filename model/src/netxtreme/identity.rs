//! Which NIC a function is, and how much it can.

/// Which NIC a function is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// How much it can.
    pub bounds: Bounds,
}

/// How much a NIC can.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Queue pairs that RoCE may have, from 2 on.
    pub queue_pairs: u32,
    /// Queue pairs of those that are destroyed fast, beside the others.
    pub fast_queue_pairs: u32,
    /// Shared receive queues.
    pub shared_receive_queues: u32,
    /// Memory keys.
    pub keys: u32,
    /// Address vectors.
    pub address_vectors: u32,
    /// Completions of a queue.
    pub completions: u32,
    /// The largest numbers of context entries are the driver's limits.
    pub limits_are_the_drivers: bool,
    /// Doorbells have to be paced.
    pub paced: bool,
    /// Doorbells that wait at most: those that come then are lost.
    pub doorbells: u32,
    /// Interrupt vectors.
    pub vectors: u16,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            queue_pairs: 4096,
            fast_queue_pairs: 64,
            shared_receive_queues: 1024,
            keys: 16384,
            address_vectors: 4096,
            completions: 1 << 16,
            limits_are_the_drivers: false,
            paced: false,
            doorbells: 0x8000,
            vectors: 32,
        }
    }
}

impl Identity {
    /// The `number`th function of a fabric, from 1 on.
    pub fn new(number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        // A locally administered address.
        Identity { mac: [0x02, 0x0a, 0xf7, 0x57, high, low], bounds: Bounds::default() }
    }
}
