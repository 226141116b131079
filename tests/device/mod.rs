//! The NICs that the tests run on: virtual ones of this process, or, where the environment variable
//! `DOORBELL_DEVICE` names some (`mlx5_0`, or `mlx5_0,mlx5_1`), NICs of this machine.
//!
//! A test is written once, for any verbs file `V`, inside [`on_any_device`].

// Each test program uses some of this.
#![allow(dead_code, unused_imports, unused_macros)]

mod end;
mod wait;

pub use end::{End, Options, Register, Unconnected, connect, ends, pair, pair_of, pattern};
pub use wait::{drain, failed, next, next_or_step, patience, received, sent, until};

use doorbell::mlx5::Nic;
use doorbell_hal::linux::{Machine, VerbsFile};
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::Network;
use std::os::fd::AsFd;

/// A verbs file that the tests know how to open.
pub trait Verbs: Uverbs<EventFiles: AsFd, Memory: Send, Page: Send> {
    /// What the NICs of one test share.
    type Fabric;

    /// Opens the verbs file of the NIC at place `place`.
    fn open(fabric: &Self::Fabric, place: usize) -> Self;

    /// Lets time pass where it does not by itself. Answers whether it did something.
    fn step(_: &Self::Fabric) -> bool {
        true
    }
}

impl Verbs for VirtualConnectx {
    type Fabric = Network;

    fn open(network: &Network, _: usize) -> Self {
        VirtualConnectx::builder().network(network).open()
    }

    fn step(network: &Network) -> bool {
        network.is_free() || network.run_until_idle(1)
    }
}

/// The names of the machine's NICs that the tests run on.
pub struct Names(Vec<String>);

impl Verbs for VerbsFile {
    type Fabric = Names;

    fn open(Names(names): &Names, place: usize) -> Self {
        let name = &names[place % names.len()];
        Machine::this().open_verbs(name).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// NICs that reach each other.
pub struct Device<V: Verbs> {
    fabric: V::Fabric,
}

impl<V: Verbs> Device<V> {
    pub fn on(fabric: V::Fabric) -> Self {
        Device { fabric }
    }

    pub fn fabric(&self) -> &V::Fabric {
        &self.fabric
    }

    /// Opens the NIC at `place`. Different places are different NICs, where there are several.
    pub fn nic(&self, place: usize) -> Nic<V> {
        Nic::open(self.verbs(place)).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn verbs(&self, place: usize) -> V {
        V::open(&self.fabric, place)
    }

    /// Lets time pass where it does not by itself.
    pub fn step(&self) -> bool {
        V::step(&self.fabric)
    }
}

/// The NICs of this machine that `DOORBELL_DEVICE` names.
pub fn named() -> Option<Device<VerbsFile>> {
    let names = std::env::var("DOORBELL_DEVICE").ok()?;
    let names: Vec<_> =
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Into::into).collect();
    (!names.is_empty()).then(|| Device::on(Names(names)))
}

/// Virtual NICs that run by themselves.
pub fn free() -> Device<VirtualConnectx> {
    Device::on(Network::free())
}

/// Tests that are written once and run on whatever NICs there are: each is a function of a
/// `&Device<V>`, for a `V` that it does not know.
macro_rules! on_any_device {
    ($($(#[$meta:meta])* fn $name:ident<$V:ident>($device:ident) $body:block)*) => {
        $(
            $(#[$meta])*
            #[test]
            fn $name() {
                fn test<$V: $crate::device::Verbs>($device: &$crate::device::Device<$V>) $body
                match $crate::device::named() {
                    Some(device) => test(&device),
                    None => test(&$crate::device::free()),
                }
            }
        )*
    };
}
pub(crate) use on_any_device;
