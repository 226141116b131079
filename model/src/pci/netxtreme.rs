//! A BCM57608 on its bus.

use super::Function;
use super::configuration::{Configuration, Effect, Shown};
use super::guest_memory::GuestMemory;
use super::interrupts::{MsixVectors, VECTORS};
use crate::memory::AddressSpace;
use crate::network::{Network, NicId, Store};
use crate::netxtreme::{BAR_BYTES, FetchedFrom, Identity, Netxtreme};
use std::fs::File;
use std::sync::Arc;

/// The vendor's number, and the device's: a BCM57608.
const VENDOR: u16 = 0x14e4;
const BCM57608: u16 = 0x1760;
/// The class of Ethernet controllers.
const ETHERNET: u32 = 0x02_0000;
/// BARs, each of 64 bits.
pub(super) const REGISTERS: u8 = 0;
pub(super) const DOORBELLS: u8 = 2;
const MSIX: u8 = 4;
/// Where the pending bits are, behind the table. The machine keeps the table itself.
const MSIX_PENDING: u32 = 0x8000;
/// Bytes of a doorbell page.
pub(super) const PAGE: u64 = 4096;

/// Bytes of a BAR.
pub(super) fn bar_bytes(bar: u8) -> u64 {
    match bar {
        REGISTERS | DOORBELLS | MSIX => BAR_BYTES[usize::from(bar / 2)],
        _ => 0,
    }
}

/// A BCM57608 as a PCI function.
pub struct NetxtremeFunction {
    network: Network,
    nic: NicId,
    memory: Arc<GuestMemory>,
    interrupts: Arc<MsixVectors>,
    configuration: Configuration,
}

impl NetxtremeFunction {
    /// A function that was just switched on, with no memory and nobody listening.
    pub fn new(network: &Network, mut identity: Identity) -> Self {
        let memory = Arc::new(GuestMemory::new());
        let interrupts = Arc::new(MsixVectors::new());
        identity.bounds.vectors = identity.bounds.vectors.min(VECTORS);
        let space: Arc<dyn AddressSpace> = Arc::clone(&memory) as _;
        let nic = Netxtreme::switch_on(network, identity, space, Arc::clone(&interrupts) as _);
        let mut function = NetxtremeFunction {
            network: network.clone(),
            nic,
            memory,
            interrupts,
            configuration: configuration(),
        };
        function.follow_bus_master();
        function
    }

    /// Its NIC on the network.
    pub fn nic(&self) -> NicId {
        self.nic
    }

    fn follow_bus_master(&mut self) {
        let on = self.configuration.is_bus_master();
        self.network.with_netxtreme(self.nic, |nic, _, _| nic.set_bus_master(on));
    }

    fn word(&self, at: u64) -> u32 {
        self.network.with_netxtreme(self.nic, |nic, _, _| nic.read_register(at)).unwrap_or(!0)
    }

    fn note(&self, line: std::fmt::Arguments<'_>) {
        self.network.with_netxtreme(self.nic, |nic, _, _| nic.note(line));
    }

    fn ring(&self, at: u64, from: &[u8]) {
        match <[u8; 8]>::try_from(from) {
            Ok(bytes) if at.is_multiple_of(8) => {
                let (page, offset) = ((at / PAGE) as u32, (at % PAGE) as u32);
                let value = u64::from_ne_bytes(bytes);
                self.network.store_and_serve(self.nic, Store::Word { page, offset, value });
            }
            _ => self.note(format_args!("{} bytes at {at:#x} of the doorbell BAR", from.len())),
        }
    }
}

pub(super) fn configuration() -> Configuration {
    Configuration::new(&Shown {
        vendor: VENDOR,
        device: BCM57608,
        class: ETHERNET,
        bars: &[REGISTERS, DOORBELLS, MSIX],
        msix: (MSIX, 0, MSIX_PENDING),
    })
}

impl Function for NetxtremeFunction {
    fn bar_bytes(&self, bar: u8) -> u64 {
        bar_bytes(bar)
    }

    fn reset(&mut self) {
        self.configuration = configuration();
        let space: Arc<dyn AddressSpace> = Arc::clone(&self.memory) as _;
        self.network.with_netxtreme(self.nic, |nic, fabric, _| nic.reset(&space, fabric));
        self.follow_bus_master();
    }

    fn fail(&mut self) {
        self.network.with_netxtreme(self.nic, |nic, _, _| nic.die());
    }

    fn set_link(&mut self, up: bool) {
        self.network.with_netxtreme(self.nic, |nic, _, _| nic.set_link(up));
    }

    fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    fn interrupts(&self) -> &MsixVectors {
        &self.interrupts
    }

    fn take_log(&mut self) -> Vec<String> {
        self.network.with_netxtreme(self.nic, |nic, _, _| nic.take_log()).unwrap_or_default()
    }

    fn summary(&self) -> String {
        let counters = self.network.with_netxtreme(self.nic, |nic, _, _| nic.counters());
        format!("{:?}", counters.unwrap_or_default())
    }

    fn objects(&self) -> String {
        let objects = self.network.with_netxtreme(self.nic, |nic, _, _| nic.objects());
        let [keys, queues, pairs, shared, vectors] = objects.unwrap_or_default();
        format!("mr={keys} cq={queues} qp={pairs} srq={shared} ah={vectors}")
    }

    fn plan_refusal(&mut self, command: &str, skip: u64) -> bool {
        let nic = self.nic;
        let planned = self.network.with_netxtreme(nic, |nic, _, _| nic.plan_refusal(command, skip));
        planned.unwrap_or(false)
    }

    fn is_refusal_planned(&mut self) -> bool {
        let planned = self.network.with_netxtreme(self.nic, |nic, _, _| nic.is_refusal_planned());
        planned.unwrap_or(false)
    }

    fn take_given(&mut self) -> Vec<(String, u64)> {
        let given = self.network.with_netxtreme(self.nic, |nic, _, _| nic.take_given());
        let given = given.unwrap_or_default().into_iter();
        given.map(|(command, times)| (command.to_owned(), times)).collect()
    }

    fn record(&mut self) -> bool {
        self.network.with_netxtreme(self.nic, |nic, _, _| nic.record());
        true
    }

    fn take_recorded(&mut self) -> Vec<(&'static str, Vec<u8>)> {
        let taken = self.network.with_netxtreme(self.nic, |nic, _, _| nic.take_recorded());
        let name = |ring| match ring {
            FetchedFrom::Sends => "send",
            FetchedFrom::Receives => "receive",
        };
        let taken = taken.unwrap_or_default().into_iter();
        taken.map(|entry| (name(entry.ring), entry.bytes)).collect()
    }

    fn map(
        &mut self,
        address: u64,
        length: u64,
        file: &File,
        offset: u64,
        writable: bool,
    ) -> Result<(), super::Unmappable> {
        self.memory.map(address, length, file, offset, writable)
    }

    fn unmap(&mut self, address: u64, length: Option<u64>) {
        self.network.with_netxtreme(self.nic, |nic, fabric, _| {
            fabric.settle(nic.port());
            match length {
                Some(length) => self.memory.unmap(address, length),
                None => self.memory.unmap_all(),
            }
        });
    }

    fn read_configuration(&self, at: u64, into: &mut [u8]) {
        self.configuration.read(at, into);
    }

    fn write_configuration(&mut self, at: u64, from: &[u8]) {
        match self.configuration.write(at, from) {
            Effect::Reset => self.reset(),
            Effect::Nothing => self.follow_bus_master(),
        }
    }

    fn read_bar(&mut self, bar: u8, at: u64, into: &mut [u8]) {
        let mut word = (u64::MAX, [0; 4]);
        for (offset, byte) in into.iter_mut().enumerate() {
            let offset = at.wrapping_add(offset as u64);
            if word.0 != offset / 4 {
                let value = match bar {
                    REGISTERS => self.word(offset & !3),
                    MSIX if offset & !7 == u64::from(MSIX_PENDING) => {
                        (self.interrupts.pending() >> (8 * (offset & 4))) as u32
                    }
                    _ => 0,
                };
                word = (offset / 4, value.to_le_bytes());
            }
            *byte = word.1[(offset % 4) as usize];
        }
    }

    fn write_bar(&mut self, bar: u8, at: u64, from: &[u8]) {
        match bar {
            DOORBELLS => self.ring(at, from),
            REGISTERS if at.is_multiple_of(4) && from.len().is_multiple_of(4) => {
                self.network.with_netxtreme(self.nic, |nic, fabric, now| {
                    for (at, word) in (at..).step_by(4).zip(from.as_chunks::<4>().0) {
                        nic.write_register(at, u32::from_le_bytes(*word), now, fabric);
                    }
                });
            }
            REGISTERS => self.note(format_args!("{} bytes at {at:#x} of BAR 0", from.len())),
            // The machine's own table.
            _ => {}
        }
    }
}
