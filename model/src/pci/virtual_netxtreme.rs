//! A BCM57608 of this process, for a driver of this process.

use super::configuration::{Configuration, Effect};
use super::netxtreme::{DOORBELLS, PAGE, REGISTERS, bar_bytes, configuration};
use crate::connectx::firmware::Interrupts as Sink;
use crate::memory::{AddressSpace, LentMemory, Loan};
use crate::network::{Bus, Mapping, Network, NicId, Step, VirtualPage, VirtualRegister};
use crate::netxtreme::{Bounds, Counters, Identity, Netxtreme};
use doorbell_hal::Errno;
use doorbell_hal::linux::Anonymous;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::mmio::RegisterPage;
use doorbell_hal::pci::{Bar, BusAddress, DeviceAddresses, Interrupts, PciFunction};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A BCM57608 that this process owns, and is.
///
/// ```
/// use doorbell_hal::pci::{PciFunction, identity};
/// use doorbell_model::VirtualNetxtreme;
///
/// let function = VirtualNetxtreme::builder().open();
/// assert_eq!(identity(&function)?.device, 0x1760);
/// # Ok::<(), doorbell_hal::pci::ConfigurationError>(())
/// ```
pub struct VirtualNetxtreme {
    device: Arc<Device>,
    number: u16,
    devices: Devices,
}

/// What everything that a function has given out keeps alive.
struct Device {
    network: Network,
    nic: NicId,
    memory: Arc<LentMemory>,
    vectors: Arc<Vectors>,
    configuration: Mutex<Configuration>,
    bus: Option<Arc<Bus>>,
    since: Instant,
}

/// A function that is not there yet.
#[derive(Default)]
pub struct NetxtremeBuilder {
    network: Option<Network>,
    number: Option<u16>,
    mac: Option<[u8; 6]>,
    bounds: Bounds,
    granule: Option<usize>,
    devices: Devices,
}

/// Memory of other devices of the bus, by the function and the BAR that it is behind.
type Devices = BTreeMap<(BusAddress, u8), Arc<Anonymous>>;

impl NetxtremeBuilder {
    /// The network that the NIC is on; one of its own, that runs by itself, unless it is said.
    pub fn network(mut self, network: &Network) -> Self {
        self.network = Some(network.clone());
        self
    }

    /// What the NIC's address is made of. Its place in its network unless it is said.
    pub fn number(mut self, number: u16) -> Self {
        self.number = Some(number);
        self
    }

    /// The NIC's Ethernet address; one made of its number unless it is said.
    pub fn mac(mut self, mac: [u8; 6]) -> Self {
        self.mac = Some(mac);
        self
    }

    /// How much the NIC can.
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Within how many bytes device addresses follow one another: a power of two, 4096 unless it is
    /// said.
    pub fn granule(mut self, bytes: usize) -> Self {
        self.granule = Some(bytes);
        self
    }

    /// There is another device on the bus, whose function `owner` has `memory` behind a BAR.
    pub fn device(mut self, owner: BusAddress, bar: u8, memory: Arc<Anonymous>) -> Self {
        self.devices.insert((owner, bar), memory);
        self
    }

    /// Switches the function on, and owns it.
    pub fn open(self) -> VirtualNetxtreme {
        let network = self.network.unwrap_or_else(Network::free);
        let number = self.number.unwrap_or_else(|| (network.nics() as u16).wrapping_add(1));
        let mac = self.mac.unwrap_or(Identity::new(number).mac);
        let identity = Identity { mac, bounds: self.bounds };
        let memory = Arc::new(LentMemory::new(self.granule.unwrap_or(PAGE as usize)));
        let vectors = Arc::new(Vectors::default());
        let space: Arc<dyn AddressSpace> = Arc::clone(&memory) as _;
        let nic = Netxtreme::switch_on(&network, identity, space, Arc::clone(&vectors) as _);
        let device = Device {
            bus: network.bus(nic),
            network,
            nic,
            memory,
            vectors,
            configuration: Mutex::new(configuration()),
            since: Instant::now(),
        };
        device.follow_bus_master(&device.configuration());
        VirtualNetxtreme { device: Arc::new(device), number, devices: self.devices }
    }
}

impl VirtualNetxtreme {
    /// Describes a function.
    pub fn builder() -> NetxtremeBuilder {
        NetxtremeBuilder::default()
    }

    /// Its network.
    pub fn network(&self) -> &Network {
        &self.device.network
    }

    /// The function as an onlooker sees it, who has it go on after its driver let go.
    pub fn watch(&self) -> WatchedNetxtreme {
        WatchedNetxtreme(Arc::clone(&self.device))
    }
}

/// A function that a test looks at, and meddles with, while somebody drives it.
#[derive(Clone)]
pub struct WatchedNetxtreme(Arc<Device>);

impl WatchedNetxtreme {
    /// The NIC on its network.
    pub fn nic(&self) -> NicId {
        self.0.nic
    }

    /// Calls `with` with the NIC.
    pub fn with<R: Default>(&self, with: impl FnOnce(&mut Netxtreme) -> R) -> R {
        let result = self.0.network.with_netxtreme(self.0.nic, |nic, _, _| with(nic));
        result.unwrap_or_default()
    }

    /// What the NIC has seen and done.
    pub fn counters(&self) -> Counters {
        self.with(|nic| nic.counters())
    }

    /// What went wrong since it was asked last.
    pub fn take_log(&self) -> Vec<String> {
        self.with(Netxtreme::take_log)
    }

    /// Whether the function may start accesses to memory.
    pub fn is_bus_master(&self) -> bool {
        self.0.configuration().is_bus_master()
    }

    /// Whether writes that the function starts may be reordered.
    pub fn is_relaxed(&self) -> bool {
        self.0.configuration().is_relaxed()
    }

    /// Bytes of memory that the driver has given to the function, and not taken back.
    pub fn lent(&self) -> usize {
        self.0.memory.lent()
    }
}

impl Device {
    fn configuration(&self) -> MutexGuard<'_, Configuration> {
        self.configuration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow_bus_master(&self, configuration: &Configuration) {
        let on = configuration.is_bus_master();
        self.network.with_netxtreme(self.nic, |nic, _, _| nic.set_bus_master(on));
    }

    fn reset(&self, configuration: &mut Configuration) {
        *configuration = self::configuration();
        let space: Arc<dyn AddressSpace> = Arc::clone(&self.memory) as _;
        self.network.with_netxtreme(self.nic, |nic, fabric, _| nic.reset(&space, fabric));
        self.follow_bus_master(configuration);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.network.remove_nic(self.nic);
    }
}

/// Memory that the function reaches.
pub struct Lent {
    device: Arc<Device>,
    loan: Loan,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Device { network, nic, memory, .. } = &*self.device;
        network.with_netxtreme(*nic, |nic, fabric, _| {
            fabric.settle(nic.port());
            memory.take_back(self.loan);
        });
    }
}

impl DeviceAddresses for Lent {
    fn reach(&self) -> usize {
        self.loan.len()
    }

    fn granule(&self) -> usize {
        self.loan.granule()
    }

    fn device_address(&self, at: usize) -> Option<u64> {
        self.loan.device_address(at)
    }
}

/// Memory of this process that was allocated for the function.
pub struct LentAnonymous {
    // Taken back before the memory goes.
    lent: Lent,
    memory: Anonymous,
}

// SAFETY: M1: it is `Anonymous`'s memory, which keeps the promises, and stays until this is dropped.
unsafe impl DmaMemory for LentAnonymous {
    fn as_ptr(&self) -> NonNull<u8> {
        self.memory.as_ptr()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }
}

impl DeviceAddresses for LentAnonymous {
    fn reach(&self) -> usize {
        self.lent.reach()
    }

    fn granule(&self) -> usize {
        self.lent.granule()
    }

    fn device_address(&self, at: usize) -> Option<u64> {
        self.lent.device_address(at)
    }
}

/// Registers behind a BAR of the function.
pub struct VirtualBar {
    device: Arc<Device>,
    number: u8,
}

impl RegisterPage for VirtualBar {
    type Register = VirtualRegister;

    fn register(&self, offset: usize, len: usize) -> Option<VirtualRegister> {
        let bus = self.device.bus.as_ref().filter(|_| self.number == DOORBELLS)?;
        let page = PAGE as usize;
        if offset as u64 >= self.size() {
            return None;
        }
        let device = Arc::clone(&self.device);
        let mapping = Mapping::new(move || drop(device));
        VirtualPage::new(Arc::clone(bus), (offset / page) as u32, mapping)
            .register(offset % page, len)
    }
}

impl Bar for VirtualBar {
    fn size(&self) -> u64 {
        bar_bytes(self.number)
    }

    fn read(&self, at: u64) -> Option<u32> {
        if !at.is_multiple_of(4) || at >= self.size() {
            return None;
        }
        let Device { network, nic, .. } = &*self.device;
        match self.number {
            REGISTERS => network.with_netxtreme(*nic, |nic, _, _| nic.read_register(at)),
            _ => Some(0),
        }
    }

    fn write(&self, at: u64, value: u32) -> Option<()> {
        if !at.is_multiple_of(4) || at >= self.size() {
            return None;
        }
        let Device { network, nic, .. } = &*self.device;
        network.with_netxtreme(*nic, |nic, fabric, now| match self.number {
            REGISTERS => nic.write_register(at, value, now, fabric),
            bar => nic.note(format_args!("4 bytes at {at:#x} of BAR {bar}: nothing listens there")),
        })
    }
}

/// The vectors of a function: which were raised and not waited for.
#[derive(Default)]
struct Vectors {
    raised: Mutex<u64>,
    news: Condvar,
}

impl Sink for Vectors {
    fn raise(&self, vector: u16) {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        *raised |= 1u64.checked_shl(vector.into()).unwrap_or(0);
        self.news.notify_all();
    }
}

impl Vectors {
    /// Takes the first of the vectors in `mask` that was raised.
    fn take(raised: &mut u64, mask: u64) -> Option<u16> {
        let first = (*raised & mask).trailing_zeros();
        let bit = 1u64.checked_shl(first)?;
        *raised &= !bit;
        Some(first as u16)
    }
}

/// Vectors that a driver listens to.
pub struct VirtualInterrupts {
    device: Arc<Device>,
    mask: u64,
}

impl Interrupts for VirtualInterrupts {
    fn wait(&self, timeout: Duration) -> Result<Option<u16>, Errno> {
        let Device { network, vectors, .. } = &*self.device;
        let lock = || vectors.raised.lock().unwrap_or_else(PoisonError::into_inner);
        if !network.is_free() {
            // A network of steps takes them until something was raised, or nothing is left.
            loop {
                if let Some(vector) = Vectors::take(&mut lock(), self.mask) {
                    return Ok(Some(vector));
                }
                if network.step() == Step::Idle {
                    return Ok(None);
                }
            }
        }
        let raised =
            vectors.news.wait_timeout_while(lock(), timeout, |raised| *raised & self.mask == 0);
        let (mut raised, _) = raised.unwrap_or_else(PoisonError::into_inner);
        Ok(Vectors::take(&mut raised, self.mask))
    }
}

/// Steps that a pause lasts at most, where a network is made of them.
const STEPS_OF_A_PAUSE: u64 = 1000;

// SAFETY: M1, P1: allocated memory is `Anonymous`'s, and is lent to this function alone, at device
// addresses that lead nowhere else, until it is dropped. The function reaches memory only through
// `LentMemory`, which knows nothing but what was allocated or pinned.
unsafe impl PciFunction for VirtualNetxtreme {
    type Memory = LentAnonymous;
    type Pinned = Lent;
    type Bar = VirtualBar;
    type Interrupts = VirtualInterrupts;

    fn bus_address(&self) -> BusAddress {
        let [bus, device] = self.number.to_be_bytes();
        // There are 32 devices on a bus.
        BusAddress::new(u32::from(bus) << 3 | u32::from(device >> 5), 0, device & 31, 0)
            .unwrap_or(BusAddress::new(0, 0, 0, 0).expect("numbers in range"))
    }

    fn read_configuration(&self, at: u16, into: &mut [u8]) -> Result<(), Errno> {
        self.device.configuration().read(at.into(), into);
        Ok(())
    }

    fn write_configuration(&self, at: u16, bytes: &[u8]) -> Result<(), Errno> {
        let mut configuration = self.device.configuration();
        match configuration.write(at.into(), bytes) {
            Effect::Reset => self.device.reset(&mut configuration),
            Effect::Nothing => self.device.follow_bus_master(&configuration),
        }
        Ok(())
    }

    fn bar(&self, number: u8) -> Result<VirtualBar, Errno> {
        match bar_bytes(number) {
            0 => Err(Errno::EINVAL),
            _ => Ok(VirtualBar { device: Arc::clone(&self.device), number }),
        }
    }

    fn allocate(&self, len: usize) -> Result<LentAnonymous, Errno> {
        let memory = Anonymous::new(len)?;
        // SAFETY: D1, M2: the memory is `Anonymous`'s, and is dropped after the loan was taken back.
        let loan = unsafe { self.device.memory.lend(memory.as_ptr(), memory.len()) };
        let lent = Lent { device: Arc::clone(&self.device), loan };
        Ok(LentAnonymous { lent, memory })
    }

    unsafe fn pin(&self, start: NonNull<u8>, len: usize) -> Result<Lent, Errno> {
        if !(start.as_ptr() as usize | len).is_multiple_of(PAGE as usize) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: D1, M2: our caller promises it, until the answer is dropped.
        let loan = unsafe { self.device.memory.lend(start, len) };
        Ok(Lent { device: Arc::clone(&self.device), loan })
    }

    fn pin_device(
        &self,
        owner: BusAddress,
        bar: u8,
        offset: u64,
        len: usize,
    ) -> Result<Lent, Errno> {
        let memory = self.devices.get(&(owner, bar)).ok_or(Errno::ENODEV)?;
        let at = usize::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let fits = at.checked_add(len).is_some_and(|end| end <= memory.len());
        if !fits || len == 0 || !at.is_multiple_of(PAGE as usize) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: M1: the bytes are in the device's memory.
        let start = unsafe { memory.as_ptr().add(at) };
        // SAFETY: D1, M2: that memory is reached by raw copies only, and this function holds it.
        let loan = unsafe { self.device.memory.lend(start, len) };
        Ok(Lent { device: Arc::clone(&self.device), loan })
    }

    fn interrupts(&self, vectors: u16) -> Result<VirtualInterrupts, Errno> {
        let most = self
            .device
            .network
            .with_netxtreme(self.device.nic, |nic, _, _| nic.identity().bounds.vectors);
        if vectors == 0 || vectors > most.unwrap_or(0).min(63) {
            return Err(Errno::EINVAL);
        }
        Ok(VirtualInterrupts { device: Arc::clone(&self.device), mask: (1 << vectors) - 1 })
    }

    fn reset(&self) -> Result<(), Errno> {
        self.device.reset(&mut self.device.configuration());
        Ok(())
    }

    fn page_size(&self) -> usize {
        PAGE as usize
    }

    fn random(&self) -> Result<u32, Errno> {
        self.device.network.random().map_err(|_| Errno::EIO)
    }

    fn now(&self) -> Duration {
        match self.device.network.is_free() {
            true => self.device.since.elapsed(),
            false => Duration::from_nanos(self.device.network.now()),
        }
    }

    fn pause(&self, time: Duration) {
        match self.device.network.is_free() {
            true => std::thread::sleep(time),
            false => self.device.network.pass(time, STEPS_OF_A_PAUSE),
        }
    }
}
