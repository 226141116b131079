//! The families of NICs, as types that a run chooses among.

use doorbell::access::RemoteAtomic;
use doorbell::bnxt;
use doorbell::connection::{Connection, PeerRights};
use doorbell::endpoint::{Endpoint, LinkLayer, Mtu};
use doorbell::error::Error;
use doorbell::family::{CompletionQueue, ReceiveQueue, RemoteRegion, SendQueue};
use doorbell::mlx5::{self, Order};
use doorbell::state::Reset;
use doorbell_hal::mmio::{Caching, Uncached, WriteCombining};
use doorbell_hal::pci::PciFunction;
use doorbell_hal::uverbs::Uverbs;
use std::marker::PhantomData;

/// What a run needs of a family of NICs.
pub trait Family: 'static {
    type Nic: Facts;
    type Region: RemoteRegion;
    type Queue: CompletionQueue;
    type QueuePair;
    type Sends: SendQueue;
    type Receives: ReceiveQueue;

    /// Makes a region of `len` bytes in which writes land in order.
    fn region(nic: &Self::Nic, len: usize) -> Result<Self::Region, Error>;

    /// Makes a completion queue that is polled.
    fn completion_queue(nic: &Self::Nic, entries: u32) -> Result<Self::Queue, Error>;

    /// Makes a queue pair whose requests complete into `sent` and whose receives into `received`.
    fn queue_pair(
        nic: &Self::Nic,
        sent: &Self::Queue,
        received: &Self::Queue,
        sizes: Sizes,
    ) -> Result<Self::QueuePair, Error>;

    /// What the other end needs to know of a queue pair.
    fn endpoint(queue_pair: &Self::QueuePair) -> Endpoint;

    /// Connects a queue pair.
    fn connect(
        queue_pair: Self::QueuePair,
        rights: PeerRights,
        peer: &Endpoint,
        connection: &Connection,
    ) -> Result<(Self::Sends, Self::Receives), Error>;
}

/// How many requests of one piece, and how many receives, a queue pair holds.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub sends: u32,
    pub receives: u32,
}

/// What a NIC of any family says about itself.
pub trait Facts {
    fn name(&self) -> &str;
    fn link(&self) -> LinkLayer;
    fn mtu(&self) -> Mtu;
    fn gid(&self) -> [u8; 16];
    fn max_message(&self) -> u32;
    fn max_sends(&self) -> u32;
    fn max_receives(&self) -> u32;
    fn max_completions(&self) -> u32;
    /// What a send queue's length counts.
    fn sends_are(&self) -> &'static str;
}

macro_rules! facts {
    ([$($generics:tt)*] $nic:ty, $sends:literal) => {
        impl<$($generics)*> Facts for $nic {
            fn name(&self) -> &str {
                <$nic>::name(self)
            }

            fn link(&self) -> LinkLayer {
                <$nic>::link(self)
            }

            fn mtu(&self) -> Mtu {
                <$nic>::mtu(self)
            }

            fn gid(&self) -> [u8; 16] {
                <$nic>::gid(self)
            }

            fn max_message(&self) -> u32 {
                <$nic>::max_message(self)
            }

            fn max_sends(&self) -> u32 {
                <$nic>::max_sends(self)
            }

            fn max_receives(&self) -> u32 {
                <$nic>::max_receives(self)
            }

            fn max_completions(&self) -> u32 {
                <$nic>::max_completions(self)
            }

            fn sends_are(&self) -> &'static str {
                $sends
            }
        }
    };
}

facts!([V: Uverbs] mlx5::Nic<V>, "slots of 64 bytes");
facts!([F: PciFunction] bnxt::Nic<F>, "requests of one piece");

/// ConnectX NICs, whose doorbells are rung through a register that is mapped as `C`.
pub struct Connectx<V, C>(PhantomData<(V, C)>);

/// How a queue pair's requests are announced to a ConnectX, as a type.
pub trait Announce: Caching {
    /// Has the queue pair announce them so.
    fn choose<V: Uverbs>(builder: mlx5::QueuePairBuilder<V>) -> mlx5::QueuePairBuilder<V, Self>;
}

impl Announce for Uncached {
    fn choose<V: Uverbs>(builder: mlx5::QueuePairBuilder<V>) -> mlx5::QueuePairBuilder<V> {
        builder
    }
}

impl Announce for WriteCombining {
    fn choose<V: Uverbs>(builder: mlx5::QueuePairBuilder<V>) -> mlx5::QueuePairBuilder<V, Self> {
        builder.write_combining()
    }
}

impl<V: Uverbs, C: Announce> Connectx<V, C> {
    /// Makes a queue pair that completes into queues of any kind.
    pub fn queue_pair_into<N>(
        nic: &mlx5::Nic<V>,
        sent: &mlx5::CompletionQueue<V, N>,
        received: &mlx5::CompletionQueue<V, N>,
        sizes: Sizes,
    ) -> Result<mlx5::QueuePair<Reset, V, C>, Error> {
        let builder = nic.queue_pair(sent).receive_completions(received);
        C::choose(builder.sends(sizes.sends).receives(sizes.receives)).create()
    }
}

impl<V: Uverbs, C: Announce> Family for Connectx<V, C> {
    type Nic = mlx5::Nic<V>;
    type Region = mlx5::Region<RemoteAtomic, V>;
    type Queue = mlx5::CompletionQueue<V>;
    type QueuePair = mlx5::QueuePair<Reset, V, C>;
    type Sends = mlx5::SendQueue<V, C>;
    type Receives = mlx5::ReceiveQueue<V>;

    fn region(nic: &Self::Nic, len: usize) -> Result<Self::Region, Error> {
        nic.region(len, Order::InOrder)
    }

    fn completion_queue(nic: &Self::Nic, entries: u32) -> Result<Self::Queue, Error> {
        nic.completion_queue(entries)
    }

    fn queue_pair(
        nic: &Self::Nic,
        sent: &Self::Queue,
        received: &Self::Queue,
        sizes: Sizes,
    ) -> Result<Self::QueuePair, Error> {
        Self::queue_pair_into(nic, sent, received, sizes)
    }

    fn endpoint(queue_pair: &Self::QueuePair) -> Endpoint {
        queue_pair.endpoint()
    }

    fn connect(
        queue_pair: Self::QueuePair,
        rights: PeerRights,
        peer: &Endpoint,
        connection: &Connection,
    ) -> Result<(Self::Sends, Self::Receives), Error> {
        Ok(queue_pair.connect(rights, peer, connection)?.split())
    }
}

/// BCM57608 NICs.
pub struct Netxtreme<F>(PhantomData<F>);

impl<F: PciFunction> Family for Netxtreme<F> {
    type Nic = bnxt::Nic<F>;
    type Region = bnxt::Region<RemoteAtomic, F>;
    type Queue = bnxt::CompletionQueue<F>;
    type QueuePair = bnxt::QueuePair<Reset, F>;
    type Sends = bnxt::SendQueue<F>;
    type Receives = bnxt::ReceiveQueue<F>;

    fn region(nic: &Self::Nic, len: usize) -> Result<Self::Region, Error> {
        nic.region(len)
    }

    fn completion_queue(nic: &Self::Nic, entries: u32) -> Result<Self::Queue, Error> {
        nic.completion_queue(entries)
    }

    fn queue_pair(
        nic: &Self::Nic,
        sent: &Self::Queue,
        received: &Self::Queue,
        sizes: Sizes,
    ) -> Result<Self::QueuePair, Error> {
        let builder = nic.queue_pair(sent).receive_completions(received);
        builder.sends(sizes.sends).receives(sizes.receives).create()
    }

    fn endpoint(queue_pair: &Self::QueuePair) -> Endpoint {
        queue_pair.endpoint()
    }

    fn connect(
        queue_pair: Self::QueuePair,
        rights: PeerRights,
        peer: &Endpoint,
        connection: &Connection,
    ) -> Result<(Self::Sends, Self::Receives), Error> {
        Ok(queue_pair.connect(rights, peer, connection)?.split())
    }
}
