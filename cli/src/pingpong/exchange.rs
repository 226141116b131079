//! What each operation does with a message.

use crate::arguments::Op;
use crate::failure::Failure;
use doorbell::completion::Arrival;
use doorbell::family::SendQueue;
use doorbell::wr::{self, Inline, LocalSlice, RemoteSlice};

/// What one request names, made before the clock starts.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub id: u64,
    /// Where the bytes come from, or go to if the request fetches them.
    pub local: LocalSlice,
    /// The other end's bytes.
    pub remote: RemoteSlice,
    /// The bytes themselves, if they are to travel in the request.
    pub inline: Option<&'a [u8]>,
    pub immediate: u32,
    pub atomic: Atomic,
}

/// What an atomic works with.
#[derive(Clone, Copy)]
pub struct Atomic {
    /// The other end's word before.
    pub original: u64,
    /// What is added, or put there.
    pub operand: u64,
    /// What the word is compared with.
    pub compare: u64,
}

/// How it is seen that the request has done its work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The last byte is in the other end's memory.
    Memory,
    /// The other end's receive has completed.
    Receive,
    /// The request itself has completed.
    Request,
}

/// Which way the bytes go, and what becomes of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// From this end's source to the other end's target.
    There,
    /// From the other end's source to this end's target.
    Here,
    /// The other end's word to this end's target, and something else into that word.
    Word,
}

/// An operation, as a type, so that what is timed has no choice left in it.
pub trait Exchange {
    const OP: Op;
    const SEEN: Seen;
    const MOVES: Moves;

    /// Posts the request, signaled.
    fn post<Q: SendQueue>(queue: &mut Q, request: &Request<'_>) -> Result<(), Failure>;

    /// What the other end's receive says of it. Only for what is seen so.
    fn arrival(_immediate: u32) -> Arrival {
        Arrival::Send
    }

    /// What an atomic leaves in the other end's word.
    fn outcome(atomic: &Atomic) -> u64 {
        atomic.original
    }
}

pub struct Write;
pub struct WriteImmediate;
pub struct Read;
pub struct Send;
pub struct SendImmediate;
pub struct FetchAdd;
pub struct CompareSwap;

impl Exchange for Write {
    const OP: Op = Op::Write;
    const SEEN: Seen = Seen::Memory;
    const MOVES: Moves = Moves::There;

    #[inline]
    fn post<Q: SendQueue>(queue: &mut Q, request: &Request<'_>) -> Result<(), Failure> {
        let Request { id, local, remote, inline, .. } = *request;
        match inline {
            None => queue.post(wr::write(local, remote)?.id(id).signaled())?,
            Some(bytes) => queue.post(wr::write(Inline(bytes), remote)?.id(id).signaled())?,
        }
        Ok(())
    }
}

impl Exchange for WriteImmediate {
    const OP: Op = Op::WriteImmediate;
    const SEEN: Seen = Seen::Receive;
    const MOVES: Moves = Moves::There;

    #[inline]
    fn post<Q: SendQueue>(queue: &mut Q, request: &Request<'_>) -> Result<(), Failure> {
        let Request { id, local, remote, inline, immediate, .. } = *request;
        match inline {
            None => {
                queue.post(wr::write_immediate(local, remote, immediate)?.id(id).signaled())?;
            }
            Some(bytes) => {
                let write = wr::write_immediate(Inline(bytes), remote, immediate)?;
                queue.post(write.id(id).signaled())?;
            }
        }
        Ok(())
    }

    fn arrival(immediate: u32) -> Arrival {
        Arrival::WriteImmediate(immediate)
    }
}

impl Exchange for Read {
    const OP: Op = Op::Read;
    const SEEN: Seen = Seen::Request;
    const MOVES: Moves = Moves::Here;

    #[inline]
    fn post<Q: SendQueue>(queue: &mut Q, request: &Request<'_>) -> Result<(), Failure> {
        let Request { id, local, remote, .. } = *request;
        Ok(queue.post(wr::read(local, remote)?.id(id).signaled())?)
    }
}

impl Exchange for Send {
    const OP: Op = Op::Send;
    const SEEN: Seen = Seen::Receive;
    const MOVES: Moves = Moves::There;

    #[inline]
    fn post<Q: SendQueue>(queue: &mut Q, request: &Request<'_>) -> Result<(), Failure> {
        let Request { id, local, inline, .. } = *request;
        match inline {
            None => queue.post(wr::send(local).id(id).signaled())?,
            Some(bytes) => queue.post(wr::send(Inline(bytes)).id(id).signaled())?,
        }
        Ok(())
    }
}

impl Exchange for SendImmediate {
    const OP: Op = Op::SendImmediate;
    const SEEN: Seen = Seen::Receive;
    const MOVES: Moves = Moves::There;

    #[inline]
    fn post<Q: SendQueue>(queue: &mut Q, request: &Request<'_>) -> Result<(), Failure> {
        let Request { id, local, inline, immediate, .. } = *request;
        match inline {
            None => queue.post(wr::send_immediate(local, immediate).id(id).signaled())?,
            Some(bytes) => {
                queue.post(wr::send_immediate(Inline(bytes), immediate).id(id).signaled())?;
            }
        }
        Ok(())
    }

    fn arrival(immediate: u32) -> Arrival {
        Arrival::SendImmediate(immediate)
    }
}

impl Exchange for FetchAdd {
    const OP: Op = Op::FetchAdd;
    const SEEN: Seen = Seen::Request;
    const MOVES: Moves = Moves::Word;

    #[inline]
    fn post<Q: SendQueue>(queue: &mut Q, request: &Request<'_>) -> Result<(), Failure> {
        let Request { id, local, remote, atomic, .. } = *request;
        let add = wr::fetch_add(local, remote, atomic.operand)?;
        Ok(queue.post(add.id(id).signaled())?)
    }

    fn outcome(atomic: &Atomic) -> u64 {
        atomic.original.wrapping_add(atomic.operand)
    }
}

impl Exchange for CompareSwap {
    const OP: Op = Op::CompareSwap;
    const SEEN: Seen = Seen::Request;
    const MOVES: Moves = Moves::Word;

    #[inline]
    fn post<Q: SendQueue>(queue: &mut Q, request: &Request<'_>) -> Result<(), Failure> {
        let Request { id, local, remote, atomic, .. } = *request;
        let swap = wr::compare_swap(local, remote, atomic.compare, atomic.operand)?;
        Ok(queue.post(swap.id(id).signaled())?)
    }

    fn outcome(atomic: &Atomic) -> u64 {
        if atomic.original == atomic.compare { atomic.operand } else { atomic.original }
    }
}
