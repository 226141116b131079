//! A ConnectX on its bus.

use super::configuration::{Configuration, Effect};
use super::guest_memory::GuestMemory;
use super::interrupts::MsixVectors;
use super::registers::{Now, Registers, Written};
use super::write_combining::{Combiner, PATIENCE};
use crate::connectx::firmware::{Doorbell, Firmware, Port};
use crate::connectx::{Capabilities, Death, Network, Store};
use crate::kernel::LinkLayer;
use std::fs::File;
use std::sync::Arc;

/// The vendor's number, and the device's: a ConnectX-5.
const VENDOR: u16 = 0x15b3;
const CONNECTX_5: u16 = 0x1017;
/// Classes of functions: network controllers, Ethernet or InfiniBand.
const ETHERNET: u32 = 0x02_0000;
const INFINIBAND: u32 = 0x02_0700;

/// Which ConnectX a function is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its bounds.
    pub capabilities: Capabilities,
    /// Its port.
    pub port: Port,
}

/// A ConnectX as a PCI function.
pub struct ConnectxFunction {
    network: Network,
    identity: Identity,
    memory: Arc<GuestMemory>,
    interrupts: Arc<MsixVectors>,
    configuration: Configuration,
    registers: Registers,
    firmware: Firmware,
    combiner: Combiner,
    link_up: bool,
}

impl Identity {
    /// The `number`th function of a fabric, from 1 on, with a port of this kind.
    pub fn new(link_layer: LinkLayer, number: u16) -> Self {
        let capabilities = Capabilities {
            // As many as the BAR has.
            max_uars: (super::registers::BAR_BYTES / crate::connectx::UAR_PAGE as u64) as u32,
            blue_flame: false,
            ..Capabilities::default()
        };
        Identity { capabilities, port: Port::new(link_layer, number) }
    }
}

impl ConnectxFunction {
    /// A function that was just switched on, with no memory and nobody listening.
    pub fn new(network: &Network, identity: Identity) -> Self {
        let memory = Arc::new(GuestMemory::new());
        let interrupts = Arc::new(MsixVectors::new());
        let firmware = firmware(network, &identity, &memory, &interrupts);
        ConnectxFunction {
            network: network.clone(),
            configuration: configuration(&identity),
            identity,
            memory,
            interrupts,
            registers: Registers::default(),
            firmware,
            combiner: Combiner::default(),
            link_up: true,
        }
    }

    /// As after power-up. Memory stays, and who listens.
    pub fn reset(&mut self) {
        self.configuration = configuration(&self.identity);
        self.registers = Registers::default();
        self.restart();
    }

    /// The link comes up or goes down, whatever the driver wants.
    pub fn set_link(&mut self, up: bool) {
        self.link_up = up;
        self.firmware.set_link(up);
    }

    /// The firmware fails: nothing works any more until the driver resets the device.
    pub fn fail(&mut self) {
        self.registers.fail();
        self.network.with_nic(self.firmware.nic(), |nic, fabric, now| {
            nic.die(Death::Silent, now, fabric);
        });
    }

    /// Starts the firmware anew. Memory, interrupts and the configuration stay.
    fn restart(&mut self) {
        self.combiner = Combiner::default();
        self.firmware = firmware(&self.network, &self.identity, &self.memory, &self.interrupts);
        self.firmware.set_link(self.link_up);
    }

    /// The memory that the function reaches.
    pub fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    /// Its vectors.
    pub fn interrupts(&self) -> &MsixVectors {
        &self.interrupts
    }

    /// What went wrong since it was asked last, oldest first.
    pub fn take_log(&mut self) -> Vec<String> {
        let mut lines = self.firmware.take_log();
        let nic = self.network.with_nic(self.firmware.nic(), |nic, _, _| nic.take_log());
        lines.extend(nic.into_iter().flatten());
        lines
    }

    /// What its NIC has seen and done since it was reset.
    pub fn counters(&self) -> crate::connectx::Counters {
        let counters = self.network.with_nic(self.firmware.nic(), |nic, _, _| nic.counters());
        counters.unwrap_or_default()
    }

    /// The objects of its NIC: protection domains, keys, completion queues, queue pairs, UARs.
    pub fn objects(&self) -> [usize; 5] {
        self.network.with_nic(self.firmware.nic(), |nic, _, _| nic.objects()).unwrap_or_default()
    }

    /// Its firmware.
    pub fn firmware(&mut self) -> &mut Firmware {
        &mut self.firmware
    }

    /// Lets the function reach more memory.
    pub fn map(
        &mut self,
        address: u64,
        length: u64,
        file: &File,
        offset: u64,
        writable: bool,
    ) -> Result<(), super::Unmappable> {
        self.memory.map(address, length, file, offset, writable)
    }

    /// Takes memory away, all of it if no length is said. The NIC is done with it when this returns.
    pub fn unmap(&mut self, address: u64, length: Option<u64>) {
        self.network.with_nic(self.firmware.nic(), |nic, fabric, _| {
            fabric.settle(nic.port());
            match length {
                Some(length) => self.memory.unmap(address, length),
                None => self.memory.unmap_all(),
            }
        });
    }

    /// Reads the configuration space.
    pub fn read_configuration(&self, at: u64, into: &mut [u8]) {
        self.configuration.read(at, into);
    }

    /// Writes the configuration space.
    pub fn write_configuration(&mut self, at: u64, from: &[u8]) {
        if self.configuration.write(at, from) == Effect::Reset {
            self.reset();
        }
    }

    /// Reads the BAR.
    pub fn read_bar(&mut self, at: u64, into: &mut [u8]) {
        let now = Now { time: self.network.now(), pending: self.interrupts.pending() };
        self.registers.read(at, into, &now);
    }

    /// Writes the BAR.
    pub fn write_bar(&mut self, at: u64, from: &[u8]) {
        match self.registers.write(at, from) {
            Written::Nothing => {}
            Written::Queue(address) => self.firmware.set_command_queue(address),
            Written::Reset => self.restart(),
            Written::Commands(slots) => {
                self.pass_on();
                self.firmware.ring(slots);
            }
            Written::Uar(page, offset, bytes) => self.write_uar(page, offset, bytes),
            Written::Stray => {
                self.firmware.note(format_args!("{} bytes at {at:#x} of the BAR", from.len()));
            }
        }
    }

    /// Whether a store waits for what follows it. Whoever serves the function calls
    /// [`serve_waiting`](Self::serve_waiting) a moment later.
    pub fn is_waiting(&self) -> bool {
        self.combiner.waits_since().is_some()
    }

    /// Passes a store on that has waited long enough. Answers how long to wait for the one that has
    /// not.
    pub fn serve_waiting(&mut self) -> Option<std::time::Duration> {
        let left = PATIENCE.saturating_sub(self.combiner.waits_since()?.elapsed());
        if !left.is_zero() {
            return Some(left);
        }
        let firmware = &self.firmware;
        self.combiner.expire(&mut |store| firmware.store(store));
        None
    }

    fn pass_on(&mut self) {
        let firmware = &self.firmware;
        self.combiner.flush(&mut |store| firmware.store(store));
    }

    fn write_uar(&mut self, page: u32, offset: u32, bytes: &[u8]) {
        if let (Some(doorbell), Ok(value)) = (Doorbell::at(offset), <[u8; 4]>::try_from(bytes)) {
            return self.firmware.ring_event_queue(doorbell, u32::from_be_bytes(value));
        }
        match <[u8; 8]>::try_from(bytes) {
            Ok(value) => {
                let value = u64::from_ne_bytes(value);
                if !self.identity.capabilities.blue_flame {
                    return self.firmware.store(Store::Word { page, offset, value });
                }
                let firmware = &self.firmware;
                self.combiner.take(page, offset, value, &mut |store| firmware.store(store));
            }
            Err(_) => self.firmware.note(format_args!(
                "a store of {} bytes at {offset:#x} of UAR page {page:#x}",
                bytes.len()
            )),
        }
    }
}

fn configuration(identity: &Identity) -> Configuration {
    let class = match identity.port.link_layer {
        LinkLayer::Ethernet => ETHERNET,
        LinkLayer::InfiniBand => INFINIBAND,
    };
    Configuration::new(VENDOR, CONNECTX_5, class)
}

fn firmware(
    network: &Network,
    identity: &Identity,
    memory: &Arc<GuestMemory>,
    interrupts: &Arc<MsixVectors>,
) -> Firmware {
    Firmware::new(
        network,
        identity.capabilities,
        Arc::clone(memory) as _,
        Arc::clone(interrupts) as _,
        identity.port.clone(),
    )
}
