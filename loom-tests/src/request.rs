//! Requests that show whether a NIC read all of them, and of the right one.

use doorbell::wr::{self, Inline, Send, WorkRequest};

/// The words of a long request's data, but for its first 4 bytes.
pub const DATA: u64 = 0xdada_dada_dada_dada;

/// The first 4 bytes of a request's data, if its first slot is `start`.
pub fn mark(start: u32) -> [u8; 4] {
    (!start).to_ne_bytes()
}

/// A signaled request of one slot, whose first is `start`. Its id is `start`, too.
pub fn short(start: u32) -> WorkRequest<Send<Inline<[u8; 4]>>, true> {
    wr::send(Inline(mark(start))).id(start.into()).signaled()
}

/// A signaled request of two slots, whose first is `start`. Its id is `start`, too.
pub fn long(start: u32) -> WorkRequest<Send<Inline<[u8; 60]>>, true> {
    let mut data = [DATA as u8; 60];
    data[..4].copy_from_slice(&mark(start));
    wr::send(Inline(data)).id(start.into()).signaled()
}
