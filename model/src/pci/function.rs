//! A ConnectX on its bus.

use super::Function;
use super::configuration::{Configuration, Effect, Shown};
use super::device_memory::DeviceMemory;
use super::guest_memory::GuestMemory;
use super::interrupts::MsixVectors;
use super::registers::{BAR_BYTES, MSIX_PENDING, MSIX_TABLE, Now, Registers, Written};
use super::write_combining::{Combiner, PATIENCE};
use crate::connectx::firmware::device_memory::BAR_START;
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
    device_memory: DeviceMemory,
    combiner: Combiner,
    link_up: bool,
}

impl Identity {
    /// The `number`th function of a fabric, from 1 on, with a port of this kind.
    pub fn new(link_layer: LinkLayer, number: u16) -> Self {
        let capabilities = Capabilities {
            // As many as the BAR has before the device's memory.
            max_uars: (BAR_START / crate::connectx::UAR_PAGE as u64) as u32,
            blue_flame: false,
            ..Capabilities::default()
        };
        Identity { capabilities, port: Port::new(link_layer, number) }
    }
}

impl ConnectxFunction {
    /// A function that was just switched on, with no memory and nobody listening.
    ///
    /// # Panics
    ///
    /// If the system has no memory for the device's own.
    pub fn new(network: &Network, identity: Identity) -> Self {
        let memory = Arc::new(GuestMemory::new());
        let device_memory = DeviceMemory::new().expect("there is memory for the device's own");
        device_memory.map(&memory);
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
            device_memory,
            combiner: Combiner::default(),
            link_up: true,
        }
    }

    /// What its NIC has seen and done since it was reset.
    pub fn counters(&self) -> crate::connectx::Counters {
        let counters = self.network.with_nic(self.firmware.nic(), |nic, _, _| nic.counters());
        counters.unwrap_or_default()
    }

    /// Its firmware.
    pub fn firmware(&mut self) -> &mut Firmware {
        &mut self.firmware
    }

    /// The NIC as after power-up; what the bus knows stays.
    fn restart(&mut self) {
        self.combiner = Combiner::default();
        self.firmware = firmware(&self.network, &self.identity, &self.memory, &self.interrupts);
        self.firmware.set_link(self.link_up);
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

impl Function for ConnectxFunction {
    fn fail(&mut self) {
        self.registers.fail();
        self.network.with_nic(self.firmware.nic(), |nic, fabric, now| {
            nic.die(Death::Silent, now, fabric);
        });
    }

    fn bar_bytes(&self, bar: u8) -> u64 {
        if bar == 0 { BAR_BYTES } else { 0 }
    }

    fn reset(&mut self) {
        self.configuration = configuration(&self.identity);
        self.registers = Registers::default();
        self.restart();
    }

    fn set_link(&mut self, up: bool) {
        self.link_up = up;
        self.firmware.set_link(up);
    }

    fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    fn interrupts(&self) -> &MsixVectors {
        &self.interrupts
    }

    fn take_log(&mut self) -> Vec<String> {
        let mut lines = self.firmware.take_log();
        let nic = self.network.with_nic(self.firmware.nic(), |nic, _, _| nic.take_log());
        lines.extend(nic.into_iter().flatten());
        lines
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
        self.network.with_nic(self.firmware.nic(), |nic, fabric, _| {
            fabric.settle(nic.port());
            match length {
                Some(length) => self.memory.unmap(address, length),
                None => self.memory.unmap_all(),
            }
            self.device_memory.map(&self.memory);
        });
    }

    fn read_configuration(&self, at: u64, into: &mut [u8]) {
        self.configuration.read(at, into);
    }

    fn write_configuration(&mut self, at: u64, from: &[u8]) {
        if self.configuration.write(at, from) == Effect::Reset {
            self.reset();
        }
    }

    fn read_bar(&mut self, _: u8, at: u64, into: &mut [u8]) {
        if self.device_memory.read(at, into) {
            return;
        }
        let now = Now { time: self.network.now(), pending: self.interrupts.pending() };
        self.registers.read(at, into, &now);
    }

    fn write_bar(&mut self, _: u8, at: u64, from: &[u8]) {
        if self.device_memory.write(at, from) {
            return;
        }
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

    fn is_waiting(&self) -> bool {
        self.combiner.waits_since().is_some()
    }

    fn serve_waiting(&mut self) -> Option<std::time::Duration> {
        let left = PATIENCE.saturating_sub(self.combiner.waits_since()?.elapsed());
        if !left.is_zero() {
            return Some(left);
        }
        let firmware = &self.firmware;
        self.combiner.expire(&mut |store| firmware.store(store));
        None
    }

    fn summary(&self) -> String {
        format!("{:?}", self.counters())
    }

    fn objects(&self) -> String {
        let objects = self.network.with_nic(self.firmware.nic(), |nic, _, _| nic.objects());
        let [domains, keys, queues, pairs, uars] = objects.unwrap_or_default();
        format!("pd={domains} mkey={keys} cq={queues} qp={pairs} uar={uars}")
    }

    fn plan_refusal(&mut self, command: &str, skip: u64) -> bool {
        self.firmware.plan_refusal(command, skip)
    }

    fn is_refusal_planned(&mut self) -> bool {
        self.firmware.is_refusal_planned()
    }

    fn take_given(&mut self) -> Vec<(String, u64)> {
        let given = self.firmware.take_given();
        given.into_iter().map(|(command, times)| (command.to_string(), times)).collect()
    }
}

fn configuration(identity: &Identity) -> Configuration {
    let class = match identity.port.link_layer {
        LinkLayer::Ethernet => ETHERNET,
        LinkLayer::InfiniBand => INFINIBAND,
    };
    Configuration::new(&Shown {
        vendor: VENDOR,
        device: CONNECTX_5,
        class,
        bars: &[0],
        msix: (0, MSIX_TABLE as u32, MSIX_PENDING as u32),
    })
    .with_gateway()
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
