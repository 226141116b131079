//! What an engine needs of a NIC, whatever its family: traits that the queues and regions of every
//! family have, so that an engine is written once. They cost nothing: each is a call that is inlined.
//!
//! ```
//! use doorbell::completion::Completion;
//! use doorbell::family::{CompletionQueue, SendQueue};
//! use doorbell::wr::{self, LocalSlice, PostError, RemoteSlice};
//!
//! /// Writes `pieces` one after the other, and waits for the last.
//! fn write_all<S: SendQueue, C: CompletionQueue>(
//!     sends: &mut S,
//!     completions: &mut C,
//!     pieces: &[(LocalSlice, RemoteSlice)],
//! ) -> Result<Option<Completion>, PostError> {
//!     for (number, (from, to)) in pieces.iter().enumerate() {
//!         let Ok(write) = wr::write(*from, *to) else { continue };
//!         sends.post(write.id(number as u64).signaled())?;
//!     }
//!     sends.ring();
//!     let mut last = None;
//!     for _ in pieces {
//!         last = loop {
//!             if let Some(completion) = completions.poll() {
//!                 break Some(completion);
//!             }
//!         };
//!     }
//!     Ok(last)
//! }
//! ```

use crate::access::{Access, Remote};
use crate::completion::Completion;
use crate::wr::{LocalSlice, OutOfBounds, PostError, Receive, RemoteSlice, WorkRequest};
use crate::{bnxt, mlx5};
use core::ops::Range;
use doorbell_hal::mmio::Caching;
use doorbell_hal::pci::PciFunction;
use doorbell_hal::uverbs::Uverbs;

/// An operation that every family has: those of [`wr`](crate::wr).
pub trait Operation: mlx5::ring::entry::Operation + bnxt::ring::entry::Operation {}

impl<O: mlx5::ring::entry::Operation + bnxt::ring::entry::Operation> Operation for O {}

/// The pieces of a receive of any family.
pub trait Pieces: mlx5::ring::entry::Pieces + bnxt::ring::entry::Pieces {}

impl<P: mlx5::ring::entry::Pieces + bnxt::ring::entry::Pieces> Pieces for P {}

/// Where requests are posted: [`mlx5::SendQueue`], [`bnxt::SendQueue`].
pub trait SendQueue: Send {
    /// Writes a request into the ring. The NIC knows of it after [`ring`](Self::ring).
    fn post<O: Operation, const SIGNALED: bool, const FENCED: bool, const SOLICITED: bool>(
        &mut self,
        request: WorkRequest<O, SIGNALED, FENCED, SOLICITED>,
    ) -> Result<(), PostError>;

    /// Gives the NIC all requests posted so far.
    fn ring(&mut self);

    /// How many requests of one piece can surely be posted before a completion has to be polled.
    fn room(&mut self) -> u32;
}

/// Where receives are posted: [`mlx5::ReceiveQueue`], [`bnxt::ReceiveQueue`].
pub trait ReceiveQueue: Send {
    /// Writes a receive into the ring. The NIC knows of it after [`ring`](Self::ring).
    fn post<P: Pieces>(&mut self, receive: Receive<P>) -> Result<(), PostError>;

    /// Gives the NIC all receives posted so far.
    fn ring(&mut self);

    /// How many receives can be posted before a completion has to be polled.
    fn room(&mut self) -> u32;
}

/// Where completions come: [`mlx5::CompletionQueue`], [`bnxt::CompletionQueue`].
pub trait CompletionQueue: Send {
    /// The next completion, if one has come. Never waits.
    fn poll(&mut self) -> Option<Completion>;
}

/// Memory that the NIC may read and write: [`mlx5::Region`], [`bnxt::Region`].
// A region has at least one byte.
#[allow(clippy::len_without_is_empty)]
pub trait Region: Send + Sync {
    /// The number of bytes.
    fn len(&self) -> usize;

    /// The bytes `range`, to be named in requests and receives.
    fn slice(&self, range: Range<usize>) -> Result<LocalSlice, OutOfBounds>;

    /// Copies the bytes from `at` on into `bytes`.
    fn read_at(&self, at: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds>;

    /// Copies `bytes` to the bytes from `at` on.
    fn write_at(&self, at: usize, bytes: &[u8]) -> Result<(), OutOfBounds>;
}

/// A region that peers may do something with.
pub trait RemoteRegion: Region {
    /// The region as peers name it.
    fn remote(&self) -> RemoteSlice;
}

macro_rules! send_queue {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> SendQueue for $type {
            #[inline(always)]
            fn post<O: Operation, const S: bool, const F: bool, const E: bool>(
                &mut self,
                request: WorkRequest<O, S, F, E>,
            ) -> Result<(), PostError> {
                <$type>::post(self, request)
            }

            #[inline(always)]
            fn ring(&mut self) {
                <$type>::ring(self);
            }

            #[inline(always)]
            fn room(&mut self) -> u32 {
                <$type>::room(self)
            }
        }
    };
}

macro_rules! receive_queue {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> ReceiveQueue for $type {
            #[inline(always)]
            fn post<P: Pieces>(&mut self, receive: Receive<P>) -> Result<(), PostError> {
                <$type>::post(self, receive)
            }

            #[inline(always)]
            fn ring(&mut self) {
                <$type>::ring(self);
            }

            #[inline(always)]
            fn room(&mut self) -> u32 {
                <$type>::room(self)
            }
        }
    };
}

macro_rules! region {
    ([$($generics:tt)*] $access:ident $type:ty) => {
        impl<$access: Access, $($generics)*> Region for $type {
            fn len(&self) -> usize {
                <$type>::len(self)
            }

            fn slice(&self, range: Range<usize>) -> Result<LocalSlice, OutOfBounds> {
                <$type>::slice(self, range)
            }

            fn read_at(&self, at: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
                <$type>::read_at(self, at, bytes)
            }

            fn write_at(&self, at: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
                <$type>::write_at(self, at, bytes)
            }
        }

        impl<$access: Remote, $($generics)*> RemoteRegion for $type {
            fn remote(&self) -> RemoteSlice {
                <$type>::remote(self)
            }
        }
    };
}

send_queue!([V: Uverbs, C: Caching] mlx5::SendQueue<V, C>);
send_queue!([T: PciFunction] bnxt::SendQueue<T>);
receive_queue!([V: Uverbs] mlx5::ReceiveQueue<V>);
receive_queue!([F: PciFunction] bnxt::ReceiveQueue<F>);
region!([V: Uverbs] A mlx5::Region<A, V>);
region!([F: PciFunction] A bnxt::Region<A, F>);

impl<V: Uverbs, N: Send> CompletionQueue for mlx5::CompletionQueue<V, N> {
    #[inline(always)]
    fn poll(&mut self) -> Option<Completion> {
        mlx5::CompletionQueue::poll(self)
    }
}

impl<F: PciFunction, N: Send> CompletionQueue for bnxt::CompletionQueue<F, N> {
    #[inline(always)]
    fn poll(&mut self) -> Option<Completion> {
        bnxt::CompletionQueue::poll(self)
    }
}
