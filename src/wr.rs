//! Work requests: what an engine asks a queue pair to do. The same for every NIC family.
//!
//! ```
//! use doorbell::wr::{self, Inline, LocalSlice, RemoteSlice};
//! # fn requests(src: LocalSlice, dst: RemoteSlice) -> Result<(), wr::SizeError> {
//! // Write the bytes of `src` into the peer's memory, and say so with a completion that carries 7.
//! let request = wr::write(src, dst)?.id(7).signaled();
//! // Send 16 bytes that are copied into the ring, so that they can be reused at once.
//! let request = wr::send(Inline(*b"sixteen bytes...")).solicited();
//! # Ok(())
//! # }
//! ```
//!
//! A request is a plain value. Which operation it is, and whether it is signaled, fenced or
//! solicited, is its type, so that posting it compiles to stores of constants.
//!
//! | to move | write | by |
//! |---|---|---|
//! | one piece of a region | [`LocalSlice`] | naming it |
//! | several pieces | `[LocalSlice; N]` or `&[LocalSlice]` | gathering them |
//! | a few bytes | [`Inline`] | copying them into the ring when posted |

use core::fmt;
use core::ops::Range;

/// The most bytes that one slice names, and that one message carries: 2^31.
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Bytes of a region of this process, as its NIC names them. Made by a region's `slice`, which
/// checks the bounds.
///
/// It is a name, not a borrow: a request that names a region which is gone is refused by the NIC,
/// in a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalSlice {
    address: u64,
    len: u32,
    lkey: u32,
}

impl LocalSlice {
    /// `len` bytes from `address` on, through `lkey`, where no region of this library stands behind
    /// them. A `len` over [`MAX_MESSAGE`] is cut to it.
    ///
    /// # Safety
    ///
    /// The NIC may read and write the bytes that `lkey` reaches whenever a request names them:
    /// nothing refers to them as anything but raw memory (SAFETY.md, M2).
    pub const unsafe fn from_parts(address: u64, len: u32, lkey: u32) -> Self {
        LocalSlice { address, len: if len > MAX_MESSAGE { MAX_MESSAGE } else { len }, lkey }
    }

    /// The bytes `range`, at most `most`, of a region of `len` bytes whose first is at `address`,
    /// through `lkey`.
    ///
    /// # Safety
    ///
    /// As for [`from_parts`](Self::from_parts).
    pub(crate) unsafe fn of_region(
        address: u64,
        len: usize,
        lkey: u32,
        range: Range<usize>,
        most: usize,
    ) -> Result<Self, OutOfBounds> {
        let out_of_bounds =
            OutOfBounds { start: range.start as u64, end: range.end as u64, len: len as u64 };
        if range.start > range.end || range.end > len || range.end - range.start > most {
            return Err(out_of_bounds);
        }
        let len = u32::try_from(range.end - range.start).map_err(|_| out_of_bounds)?;
        // SAFETY: M2: passed on to our caller.
        Ok(unsafe { LocalSlice::from_parts(address + range.start as u64, len, lkey) })
    }

    /// The address of the first byte.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The number of bytes, at most [`MAX_MESSAGE`].
    // An empty slice is a message of no bytes, not a container: there is nothing to ask it.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// The key by which the NIC finds the region.
    pub const fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The bytes `range` of these.
    pub const fn slice(&self, range: Range<u32>) -> Result<Self, OutOfBounds> {
        if range.start > range.end || range.end > self.len {
            return Err(OutOfBounds {
                start: range.start as u64,
                end: range.end as u64,
                len: self.len as u64,
            });
        }
        let address = self.address + range.start as u64;
        Ok(LocalSlice { address, len: range.end - range.start, lkey: self.lkey })
    }
}

/// Bytes of a region of the peer, as the peer's NIC names them. Made by the peer's
/// `Region::remote`, and sent over as [bytes](Self::to_bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RemoteSlice {
    address: u64,
    len: u64,
    rkey: u32,
}

impl RemoteSlice {
    /// The size of [`to_bytes`](Self::to_bytes)' answer.
    pub const BYTES: usize = 20;

    /// `len` bytes from `address` on, through the peer's key `rkey`. The peer's NIC checks them when
    /// they are used.
    pub const fn new(address: u64, len: u64, rkey: u32) -> Self {
        RemoteSlice { address, len, rkey }
    }

    /// The address of the first byte, as the peer's region numbers its bytes.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The number of bytes.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// The key by which the peer's NIC finds the region.
    pub const fn rkey(&self) -> u32 {
        self.rkey
    }

    /// The bytes `range` of these.
    pub const fn slice(&self, range: Range<u64>) -> Result<Self, OutOfBounds> {
        if range.start > range.end || range.end > self.len {
            return Err(OutOfBounds { start: range.start, end: range.end, len: self.len });
        }
        // Whatever a peer claimed for its address, only its own NIC is asked for it.
        let address = self.address.wrapping_add(range.start);
        Ok(RemoteSlice { address, len: range.end - range.start, rkey: self.rkey })
    }

    /// The slice as bytes, to be sent to the peer that will use it: address, length and key, each
    /// big-endian.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_be_bytes());
        bytes[16..].copy_from_slice(&self.rkey.to_be_bytes());
        bytes
    }

    /// The slice that a peer sent as [`to_bytes`](Self::to_bytes). Any bytes are a slice: the peer's
    /// own NIC checks what is done with it.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, l4, l5, l6, l7, k0, k1, k2, k3] =
            bytes;
        RemoteSlice {
            address: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            len: u64::from_be_bytes([l0, l1, l2, l3, l4, l5, l6, l7]),
            rkey: u32::from_be_bytes([k0, k1, k2, k3]),
        }
    }
}

/// A range that does not lie in what it was to be cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    /// The range's start.
    pub start: u64,
    /// The range's end.
    pub end: u64,
    /// The number of bytes there are.
    pub len: u64,
}

impl OutOfBounds {
    /// Refuses `len` bytes from `at` on unless they are among `all` bytes.
    pub(crate) fn check(at: usize, len: usize, all: usize) -> Result<(), OutOfBounds> {
        match at.checked_add(len) {
            Some(end) if end <= all => Ok(()),
            end => Err(OutOfBounds {
                start: at as u64,
                end: end.map_or(u64::MAX, |end| end as u64),
                len: all as u64,
            }),
        }
    }
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfBounds { start, end, len } = self;
        write!(f, "bytes {start}..{end} are not within the {len} bytes there are")
    }
}

impl core::error::Error for OutOfBounds {}

/// A request whose two sides do not fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeError {
    /// More bytes were to be moved than there is room for.
    TooLong {
        /// Bytes to be moved.
        given: u64,
        /// Bytes of room.
        room: u64,
    },
    /// An atomic works on exactly 8 bytes on each side.
    NotEight {
        /// Bytes given on one side.
        given: u64,
    },
    /// An atomic's remote address is a multiple of 8.
    Misaligned {
        /// The address given.
        address: u64,
    },
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::TooLong { given, room } => {
                write!(f, "{given} bytes do not fit the {room} bytes there is room for")
            }
            SizeError::NotEight { given } => {
                write!(f, "an atomic works on 8 bytes, and {given} were given")
            }
            SizeError::Misaligned { address } => {
                write!(f, "an atomic's remote address {address:#x} is not a multiple of 8")
            }
        }
    }
}

impl core::error::Error for SizeError {}

/// Bytes that are copied into the ring when the request is posted. `B` is `[u8; N]`, or `&[u8]`
/// where the length is only known at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline<B>(pub B);

/// No bytes at all: a message of length 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nothing;

/// Where the bytes of a write or a send come from: [`LocalSlice`], `[LocalSlice; N]`,
/// `&[LocalSlice]`, [`Inline`], [`Nothing`].
pub trait Gather: Copy + sealed::Sealed {
    /// The number of bytes.
    fn bytes(&self) -> u64;
}

/// Where the bytes of a read or a receive go: [`LocalSlice`], `[LocalSlice; N]`, `&[LocalSlice]`,
/// [`Nothing`].
pub trait Scatter: Gather {}

impl Scatter for LocalSlice {}
impl<const N: usize> Scatter for [LocalSlice; N] {}
impl Scatter for &[LocalSlice] {}
impl Scatter for Nothing {}

impl Gather for LocalSlice {
    #[inline(always)]
    fn bytes(&self) -> u64 {
        self.len.into()
    }
}

impl<const N: usize> Gather for [LocalSlice; N] {
    #[inline(always)]
    fn bytes(&self) -> u64 {
        total(self)
    }
}

impl Gather for &[LocalSlice] {
    #[inline(always)]
    fn bytes(&self) -> u64 {
        total(self)
    }
}

impl Gather for Nothing {
    #[inline(always)]
    fn bytes(&self) -> u64 {
        0
    }
}

/// Fewer than 2^32 pieces of at most 2^31 bytes: no sum of them overflows.
#[inline(always)]
fn total(slices: &[LocalSlice]) -> u64 {
    slices.iter().map(|slice| u64::from(slice.len)).sum()
}

impl<const N: usize> Gather for Inline<[u8; N]> {
    #[inline(always)]
    fn bytes(&self) -> u64 {
        N as u64
    }
}

impl Gather for Inline<&[u8]> {
    #[inline(always)]
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::LocalSlice {}
    impl<const N: usize> Sealed for [super::LocalSlice; N] {}
    impl Sealed for &[super::LocalSlice] {}
    impl<B> Sealed for super::Inline<B> {}
    impl Sealed for super::Nothing {}
}

/// An operation, with what the caller wants to know of it.
///
/// - `SIGNALED`: it completes with a completion that carries its id. Otherwise only a failure does,
///   and its slots are free once a later signaled request has completed.
/// - `FENCED`: it starts once the reads and atomics before it have finished.
/// - `SOLICITED`: its arrival wakes a peer that armed its completion queue for solicited
///   completions only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest<
    O,
    const SIGNALED: bool = false,
    const FENCED: bool = false,
    const SOLICITED: bool = false,
> {
    pub(crate) operation: O,
    pub(crate) id: u64,
}

impl<O, const S: bool, const F: bool, const E: bool> WorkRequest<O, S, F, E> {
    /// Gives the request an id, which its completion returns. 0 without this.
    #[inline(always)]
    pub fn id(self, id: u64) -> Self {
        WorkRequest { id, ..self }
    }

    /// Asks for a completion.
    #[inline(always)]
    pub fn signaled(self) -> WorkRequest<O, true, F, E> {
        WorkRequest { operation: self.operation, id: self.id }
    }

    /// Waits for the reads and atomics posted before.
    #[inline(always)]
    pub fn fenced(self) -> WorkRequest<O, S, true, E> {
        WorkRequest { operation: self.operation, id: self.id }
    }
}

impl<O: TakesReceive, const S: bool, const F: bool, const E: bool> WorkRequest<O, S, F, E> {
    /// Wakes a peer that waits for solicited completions only.
    #[inline(always)]
    pub fn solicited(self) -> WorkRequest<O, S, F, true> {
        WorkRequest { operation: self.operation, id: self.id }
    }
}

/// An operation that completes a receive of the peer, and so can be solicited.
pub trait TakesReceive {}

impl<G> TakesReceive for WriteImmediate<G> {}
impl<G> TakesReceive for Send<G> {}
impl<G> TakesReceive for SendImmediate<G> {}
impl<G> TakesReceive for SendInvalidate<G> {}

macro_rules! operations {
    ($($(#[$meta:meta])* $name:ident $(<$param:ident>)? { $($field:ident: $type:ty),* })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name $(<$param>)? { $(pub(crate) $field: $type),* }
        )*
    };
}

operations! {
    /// The operation of [`write`](write()).
    Write<G> { from: G, to: RemoteSlice }
    /// The operation of [`write_immediate`].
    WriteImmediate<G> { from: G, to: RemoteSlice, immediate: u32 }
    /// The operation of [`read`].
    Read<S> { into: S, from: RemoteSlice }
    /// The operation of [`send`].
    Send<G> { from: G }
    /// The operation of [`send_immediate`].
    SendImmediate<G> { from: G, immediate: u32 }
    /// The operation of [`send_invalidate`].
    SendInvalidate<G> { from: G, rkey: u32 }
    /// The operation of [`fetch_add`].
    FetchAdd { into: LocalSlice, at: RemoteSlice, add: u64 }
    /// The operation of [`compare_swap`].
    CompareSwap { into: LocalSlice, at: RemoteSlice, compare: u64, swap: u64 }
}

#[inline(always)]
const fn request<O: Copy>(operation: O) -> WorkRequest<O> {
    WorkRequest { operation, id: 0 }
}

#[inline(always)]
fn fits(given: u64, room: u64) -> Result<(), SizeError> {
    if given <= room { Ok(()) } else { Err(SizeError::TooLong { given, room }) }
}

/// Writes `from` to the peer's memory, from the start of `to` on. The peer is not told.
#[inline(always)]
pub fn write<G: Gather>(from: G, to: RemoteSlice) -> Result<WorkRequest<Write<G>>, SizeError> {
    fits(from.bytes(), to.len)?;
    Ok(request(Write { from, to }))
}

/// Writes `from` to the peer's memory, then completes the peer's next receive with `immediate`.
#[inline(always)]
pub fn write_immediate<G: Gather>(
    from: G,
    to: RemoteSlice,
    immediate: u32,
) -> Result<WorkRequest<WriteImmediate<G>>, SizeError> {
    fits(from.bytes(), to.len)?;
    Ok(request(WriteImmediate { from, to, immediate }))
}

/// Reads the peer's memory, from the start of `from` on, into all of `into`.
#[inline(always)]
pub fn read<S: Scatter>(into: S, from: RemoteSlice) -> Result<WorkRequest<Read<S>>, SizeError> {
    fits(into.bytes(), from.len)?;
    Ok(request(Read { into, from }))
}

/// Sends `from` into the peer's next receive.
#[inline(always)]
pub fn send<G: Gather>(from: G) -> WorkRequest<Send<G>> {
    request(Send { from })
}

/// Sends `from` into the peer's next receive, with `immediate` beside it.
#[inline(always)]
pub fn send_immediate<G: Gather>(from: G, immediate: u32) -> WorkRequest<SendImmediate<G>> {
    request(SendImmediate { from, immediate })
}

/// Sends `from` into the peer's next receive, and takes the peer's key `rkey` away from everybody.
#[inline(always)]
pub fn send_invalidate<G: Gather>(from: G, rkey: u32) -> WorkRequest<SendInvalidate<G>> {
    request(SendInvalidate { from, rkey })
}

#[inline(always)]
fn is_atomic(into: LocalSlice, at: RemoteSlice) -> Result<(), SizeError> {
    for given in [u64::from(into.len), at.len] {
        if given != 8 {
            return Err(SizeError::NotEight { given });
        }
    }
    if !at.address.is_multiple_of(8) {
        return Err(SizeError::Misaligned { address: at.address });
    }
    Ok(())
}

/// Adds `add` to the peer's 8 bytes `at`, modulo 2^64, and puts what was there into `into`. Both
/// are in the byte order of the processor that they belong to.
#[inline(always)]
pub fn fetch_add(
    into: LocalSlice,
    at: RemoteSlice,
    add: u64,
) -> Result<WorkRequest<FetchAdd>, SizeError> {
    is_atomic(into, at)?;
    Ok(request(FetchAdd { into, at, add }))
}

/// Puts `swap` into the peer's 8 bytes `at` if they hold `compare`, and what was there into `into`.
#[inline(always)]
pub fn compare_swap(
    into: LocalSlice,
    at: RemoteSlice,
    compare: u64,
    swap: u64,
) -> Result<WorkRequest<CompareSwap>, SizeError> {
    is_atomic(into, at)?;
    Ok(request(CompareSwap { into, at, compare, swap }))
}

/// A receive: where the next send of the peer goes, and the id that its completion returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive<S> {
    pub(crate) into: S,
    pub(crate) id: u64,
}

/// Takes the next send, or write with immediate, of the peer. The bytes of a send go `into`; those
/// of a write do not.
#[inline(always)]
pub fn receive<S: Scatter>(into: S) -> Receive<S> {
    Receive { into, id: 0 }
}

impl<S> Receive<S> {
    /// Gives the receive an id, which its completion returns. 0 without this.
    #[inline(always)]
    pub fn id(self, id: u64) -> Self {
        Receive { id, ..self }
    }
}

/// A request that was not posted. The ring is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostError {
    /// The ring has no room for the request until completions are polled.
    Full,
    /// The request gathers or scatters more pieces than the queue takes.
    TooManyPieces {
        /// Pieces given.
        given: u32,
        /// The most that the queue takes.
        most: u32,
    },
    /// The request carries more inline bytes than an entry holds.
    InlineTooLong {
        /// Bytes given.
        given: u32,
        /// The most that an entry of this operation holds.
        most: u32,
    },
    /// The pieces together are longer than a message may be.
    MessageTooLong {
        /// The most bytes that a message carries.
        most: u32,
    },
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PostError::Full => f.write_str("the ring is full until completions are polled"),
            PostError::TooManyPieces { given, most } => {
                write!(f, "{given} pieces were given, and the queue takes at most {most}")
            }
            PostError::InlineTooLong { given, most } => {
                write!(f, "{given} inline bytes were given, and an entry holds at most {most}")
            }
            PostError::MessageTooLong { most } => {
                write!(
                    f,
                    "the pieces are longer than a message, which carries at most {most} bytes"
                )
            }
        }
    }
}

impl core::error::Error for PostError {}
