//! What is done on a NIC, and the types that it is done with.

use crate::arguments::Doorbell;
use crate::completions::{Completions, Polling, Sleeping};
use crate::failure::Failure;
use crate::family::{Connectx, Family, Netxtreme};
use doorbell::{bnxt, mlx5};
use doorbell_hal::mmio::{Uncached, WriteCombining};
use doorbell_hal::pci::PciFunction;
use doorbell_hal::uverbs::Uverbs;
use std::io::Write;

/// Something to be done on a NIC of any family.
pub trait Job {
    /// What comes of it.
    type Outcome;

    /// Does it, waiting for completions as `W` does.
    fn run<F: Family, W: Completions<F>>(
        self,
        nic: &F::Nic,
        out: &mut impl Write,
    ) -> Result<Self::Outcome, Failure>;
}

/// Does it on a ConnectX, with the types that --doorbell and --events stand for.
pub fn on_connectx<V: Uverbs, J: Job>(
    nic: &mlx5::Nic<V>,
    doorbell: Doorbell,
    events: bool,
    job: J,
    out: &mut impl Write,
) -> Result<J::Outcome, Failure> {
    type Plain<V> = Connectx<V, Uncached>;
    type Combining<V> = Connectx<V, WriteCombining>;
    match (doorbell, events) {
        (Doorbell::Uncached, false) => job.run::<Plain<V>, Polling<Plain<V>>>(nic, out),
        (Doorbell::Uncached, true) => job.run::<Plain<V>, Sleeping<V>>(nic, out),
        (Doorbell::BlueFlame, false) => job.run::<Combining<V>, Polling<Combining<V>>>(nic, out),
        (Doorbell::BlueFlame, true) => job.run::<Combining<V>, Sleeping<V>>(nic, out),
    }
}

/// Does it on a BCM57608, which is polled.
pub fn on_netxtreme<P: PciFunction, J: Job>(
    nic: &bnxt::Nic<P>,
    doorbell: Doorbell,
    events: bool,
    job: J,
    out: &mut impl Write,
) -> Result<J::Outcome, Failure> {
    if events || doorbell != Doorbell::Uncached {
        let text = "a BCM57608 is polled, and its doorbells are plain stores";
        return Err(Failure::Usage(text.into()));
    }
    job.run::<Netxtreme<P>, Polling<Netxtreme<P>>>(nic, out)
}
