//! Firmware that does not keep to its protocol: that of a virtual BCM57608, with a fuzzer's hand in
//! every answer, in every event, and in what is waited for.

use crate::input::Input;
use doorbell::bnxt::abi::firmware::ring::RingAllocRequest;
use doorbell::bnxt::abi::firmware::{
    RequestHeader, RequestType, SHORT_SIGNATURE, ShortRequest, TRIGGER,
};
use doorbell_hal::Errno;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::mmio::RegisterPage;
use doorbell_hal::pci::{Bar, BusAddress, DeviceAddresses, PciFunction};
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::{Network, VirtualRegister};
use doorbell_model::netxtreme::Bounds;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zerocopy::FromBytes;

/// Memory, registers and interrupts of the virtual function.
type LentAnonymous = <VirtualNetxtreme as PciFunction>::Memory;
type Lent = <VirtualNetxtreme as PciFunction>::Pinned;
type VirtualBar = <VirtualNetxtreme as PciFunction>::Bar;
type VirtualInterrupts = <VirtualNetxtreme as PciFunction>::Interrupts;

/// The most bytes that all allocations get: the driver needs less here.
const MOST_MEMORY: usize = 64 << 20;
const PAGE: u64 = 4096;
/// Where the RoCE engine's commands are announced, in BAR 0.
const COMMAND_TRIGGER: u64 = 0x700;
/// Bytes and entries of the ring that the firmware really writes its events to.
const EVENT: usize = 16;
const EVENTS: usize = 4096;
/// The time that a pause takes: long, so that nothing waits for many of them.
const PAUSE: Duration = Duration::from_millis(200);
/// The most pauses of a run: who takes more waits without a bound.
const MOST_PAUSES: u32 = 100_000;
/// The granule of device addresses: the real event ring is in one piece.
const GRANULE: usize = EVENT * EVENTS;

/// A virtual BCM57608 whose firmware's answers the bytes decide: each is given as it is, refused,
/// changed, forged or not given.
pub(crate) struct Meddler {
    inner: VirtualNetxtreme,
    shared: Arc<Shared>,
}

/// What a target keeps of its meddler.
#[derive(Clone)]
pub(crate) struct Hand(Arc<Shared>);

struct Shared {
    input: Input,
    /// Whether the answers are changed.
    meddles: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// The request that is being written.
    window: [u8; TRIGGER],
    /// Where the pages with these device addresses are, of memory that was allocated.
    pages: BTreeMap<u64, usize>,
    allocated: usize,
    pauses: u32,
    now: Duration,
    events: Option<Events>,
}

/// The event ring as the driver knows it, and as the firmware does.
struct Events {
    real: LentAnonymous,
    read: usize,
    /// The driver's pages.
    pages: Vec<u64>,
    written: usize,
}

/// A NIC that is quick to open: with room for few objects.
pub(crate) fn small_nic(network: &Network) -> VirtualNetxtreme {
    let bounds = Bounds {
        queue_pairs: 64,
        fast_queue_pairs: 2,
        shared_receive_queues: 4,
        keys: 64,
        address_vectors: 8,
        completions: 1 << 12,
        ..Bounds::default()
    };
    VirtualNetxtreme::builder().network(network).bounds(bounds).granule(GRANULE).open()
}

impl Hand {
    /// Changes answers from now on, or leaves them as they are.
    pub(crate) fn meddle(&self, on: bool) {
        self.0.meddles.store(on, Ordering::Relaxed);
    }
}

impl Meddler {
    /// A function whose firmware's answers `input` decides, once it is [told to](Hand::meddle).
    pub(crate) fn new(inner: VirtualNetxtreme, input: &Input) -> (Self, Hand) {
        let shared = Arc::new(Shared {
            input: input.clone(),
            meddles: AtomicBool::new(false),
            state: Mutex::new(State {
                window: [0; TRIGGER],
                pages: BTreeMap::new(),
                allocated: 0,
                pauses: 0,
                now: Duration::ZERO,
                events: None,
            }),
        });
        (Meddler { inner, shared: shared.clone() }, Hand(shared))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next answer is changed: seldom, so that a run gets somewhere.
    fn decides(&self) -> Option<u8> {
        let decision = if self.meddles.load(Ordering::Relaxed) { self.input.byte() } else { 0 };
        (decision >= 0xc0).then_some(decision % 16)
    }
}

impl State {
    /// The byte at a device address, if it is in memory that was allocated.
    fn place(&self, address: u64) -> Option<*mut u8> {
        let page = self.pages.get(&(address & !(PAGE - 1)))?;
        Some((*page + (address % PAGE) as usize) as *mut u8)
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        for (address, byte) in (address..).zip(bytes) {
            if let Some(place) = self.place(address) {
                // SAFETY: M1, M2: in memory that is allocated, as it is taken out of `pages` before it
                // is freed; copied as a device copies.
                unsafe { place.write_volatile(*byte) };
            }
        }
    }

    fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        for (address, byte) in (address..).zip(&mut bytes) {
            if let Some(place) = self.place(address) {
                // SAFETY: M1, M2: as in `write`.
                *byte = unsafe { place.read_volatile() };
            }
        }
        bytes
    }

    /// Where the answer of the request in the window goes, and what was asked.
    fn asked(&self) -> Option<RequestHeader> {
        let (short, _) = ShortRequest::read_from_prefix(&self.window).ok()?;
        if short.signature.get() == SHORT_SIGNATURE {
            return RequestHeader::read_from_bytes(&self.read::<16>(short.req_addr.get())).ok();
        }
        RequestHeader::read_from_prefix(&self.window).ok().map(|(header, _)| header)
    }

    /// Gives the firmware another ring for its events than the driver made, if that is what the
    /// request asks for, and it is the first.
    fn part_events(&mut self, spare: Option<LentAnonymous>) {
        let Some(real) = spare else { return };
        let Ok((request, _)) = RingAllocRequest::read_from_prefix(&self.window) else { return };
        let top = request.page_tbl_addr.get();
        let pages = (0..(EVENTS * EVENT) as u64 / PAGE).map(|page| match request.page_tbl_depth {
            0 => top + page * PAGE,
            _ => u64::from_le_bytes(self.read(top + page * 8)) & !(PAGE - 1),
        });
        let pages = pages.collect();
        let address = real.device_address(0).expect("it has one");
        self.window[24..32].copy_from_slice(&address.to_le_bytes());
        (self.window[36], self.window[37]) = (12, 0);
        self.window[40..44].copy_from_slice(&(EVENTS as u32).to_le_bytes());
        self.events = Some(Events { real, read: 0, pages, written: 0 });
    }

    /// An event, into the driver's ring.
    fn tell(&mut self, mut event: [u8; EVENT]) {
        let Some(events) = &mut self.events else { return };
        let (place, pass) = (events.written % EVENTS, events.written / EVENTS);
        event[8] = event[8] & !1 | u8::from(pass.is_multiple_of(2));
        events.written += 1;
        let page = events.pages[place * EVENT / PAGE as usize];
        let address = page + (place * EVENT) as u64 % PAGE;
        self.write(address, &event[..8]);
        self.write(address + 8, &event[8..]);
    }

    /// The next event that the firmware really wrote.
    fn next_event(&mut self) -> Option<[u8; EVENT]> {
        let events = self.events.as_mut()?;
        let (place, pass) = (events.read % EVENTS, events.read / EVENTS);
        let mut event = [0; EVENT];
        for (at, byte) in event.iter_mut().enumerate() {
            // SAFETY: M1, M2: in the ring, whose memory is this value's.
            *byte = unsafe { events.real.as_ptr().add(place * EVENT + at).read_volatile() };
        }
        let is_there = event[8] & 1 == u8::from(pass.is_multiple_of(2));
        events.read += usize::from(is_there);
        is_there.then_some(event)
    }
}

impl Shared {
    /// The firmware has answered a request at `address`.
    fn change_answer(&self, header: &RequestHeader, decision: u8) {
        let (state, address) = (self.state(), header.resp_addr.get());
        let len = u16::from_le_bytes(state.read(address + 6));
        match decision {
            0 => state.write(address, &[0; 8]),
            1 => state.write(address, &self.input.half().to_le_bytes()),
            2 => state.write(address + 4, &self.input.half().to_le_bytes()),
            3 => state.write(address + 6, &self.input.half().to_le_bytes()),
            4 => state.write(address + u64::from(len).saturating_sub(1), &[0]),
            5..=9 => {
                let at = 8 + u64::from(self.input.half()) % u64::from(len.max(10) - 9);
                let many = 1 + self.input.below(8);
                state.write(address + at, self.input.bytes(many));
            }
            10 => {
                let zeroes = vec![0; usize::from(len).saturating_sub(9)];
                state.write(address + 8, &zeroes);
            }
            11 => {
                let ones = vec![!0; usize::from(len).saturating_sub(9)];
                state.write(address + 8, &ones);
            }
            // An answer that is all the fuzzer's.
            _ => {
                let len = 9 + usize::from(self.input.byte());
                let mut answer = [0; 8].to_vec();
                answer.extend_from_slice(self.input.bytes(len - 9));
                answer.resize(len, 1);
                answer[2..4].copy_from_slice(&header.req_type.get().to_le_bytes());
                answer[4..6].copy_from_slice(&header.seq_id.get().to_le_bytes());
                answer[6..8].copy_from_slice(&(len as u16).to_le_bytes());
                state.write(address, &answer);
            }
        }
    }

    /// Carries the firmware's events to the driver, with others among them.
    fn carry_events(&self) {
        let mut state = self.state();
        while let Some(mut event) = state.next_event() {
            match self.decides() {
                None => {}
                // Lost.
                Some(0) => continue,
                Some(1) => event[1] = self.input.byte(),
                Some(2) => event[2..4].copy_from_slice(&self.input.array::<2>()),
                Some(3) => event[4..8].copy_from_slice(&self.input.array::<4>()),
                Some(4) => event[9] = self.input.byte(),
                Some(5) => event[0] = self.input.byte(),
                Some(6 | 7) => state.tell(event),
                // Failures of queue pairs and completion queues, which may not be there.
                Some(decision @ 8..=12) => {
                    for _ in 0..=self.input.below(64) {
                        let mut failure: [u8; EVENT] = self.input.array();
                        failure[0] = 0x38;
                        failure[4..8].copy_from_slice(&u32::from(self.input.byte()).to_le_bytes());
                        failure[9] = if decision == 12 { 0xc1 } else { 0xc0 };
                        state.tell(failure);
                    }
                }
                Some(_) => {
                    let other = self.input.array();
                    state.tell(other);
                }
            }
            state.tell(event);
        }
    }
}

/// Memory of the function, which the meddler writes, too.
pub(crate) struct MeddledMemory {
    inner: LentAnonymous,
    shared: Arc<Shared>,
}

impl Drop for MeddledMemory {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        for at in (0..self.inner.len()).step_by(PAGE as usize) {
            if let Some(address) = self.inner.device_address(at) {
                state.pages.remove(&address);
            }
        }
        state.allocated -= self.inner.len();
    }
}

// SAFETY: M1: it is the inner memory, which keeps the promises, and stays until this is dropped.
unsafe impl DmaMemory for MeddledMemory {
    fn as_ptr(&self) -> NonNull<u8> {
        self.inner.as_ptr()
    }

    fn len(&self) -> usize {
        self.inner.len()
    }
}

impl DeviceAddresses for MeddledMemory {
    fn reach(&self) -> usize {
        self.inner.reach()
    }

    fn granule(&self) -> usize {
        self.inner.granule()
    }

    fn device_address(&self, at: usize) -> Option<u64> {
        self.inner.device_address(at)
    }
}

/// A BAR of the function. The meddler hears what is announced through BAR 0.
pub(crate) struct MeddledBar {
    inner: VirtualBar,
    number: u8,
    shared: Arc<Shared>,
    /// For the ring that the firmware really writes its events to.
    spare: Mutex<Option<LentAnonymous>>,
}

impl RegisterPage for MeddledBar {
    type Register = VirtualRegister;

    fn register(&self, offset: usize, len: usize) -> Option<VirtualRegister> {
        self.inner.register(offset, len)
    }
}

impl MeddledBar {
    fn request(&self) -> Option<()> {
        let mut state = self.shared.state();
        let asked = state.asked();
        let is_ring = asked
            .as_ref()
            .is_some_and(|header| header.req_type.get() == RequestType::RingAlloc.code());
        if is_ring && state.events.is_none() {
            let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
            state.part_events(spare);
        }
        let window = state.window;
        drop(state);
        for (at, word) in (0..).step_by(4).zip(window.as_chunks::<4>().0) {
            self.inner.write(at, u32::from_le_bytes(*word))?;
        }
        self.inner.write(TRIGGER as u64, 1)?;
        if let (Some(header), Some(decision)) = (asked, self.shared.decides()) {
            self.shared.change_answer(&header, decision);
        }
        Some(())
    }
}

impl Bar for MeddledBar {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read(&self, at: u64) -> Option<u32> {
        self.inner.read(at)
    }

    fn write(&self, at: u64, value: u32) -> Option<()> {
        if self.number != 0 {
            return self.inner.write(at, value);
        }
        if at == TRIGGER as u64 {
            return self.request();
        }
        if let Some(place) = self.shared.state().window.get_mut(at as usize..at as usize + 4) {
            place.copy_from_slice(&value.to_le_bytes());
            return Some(());
        }
        let done = self.inner.write(at, value);
        if at == COMMAND_TRIGGER {
            self.shared.carry_events();
        }
        done
    }
}

// SAFETY: M1, P1: it is the virtual function's memory, under the same promises; what else is written
// there is written by raw copies, as a device does, while it is allocated.
unsafe impl PciFunction for Meddler {
    type Memory = MeddledMemory;
    type Pinned = Lent;
    type Bar = MeddledBar;
    type Interrupts = VirtualInterrupts;

    fn bus_address(&self) -> BusAddress {
        self.inner.bus_address()
    }

    fn read_configuration(&self, at: u16, into: &mut [u8]) -> Result<(), Errno> {
        self.inner.read_configuration(at, into)
    }

    fn write_configuration(&self, at: u16, bytes: &[u8]) -> Result<(), Errno> {
        self.inner.write_configuration(at, bytes)
    }

    fn bar(&self, number: u8) -> Result<MeddledBar, Errno> {
        let (inner, shared) = (self.inner.bar(number)?, self.shared.clone());
        let spare = if number == 0 { Some(self.inner.allocate(EVENTS * EVENT)?) } else { None };
        Ok(MeddledBar { inner, number, shared, spare: Mutex::new(spare) })
    }

    fn allocate(&self, len: usize) -> Result<MeddledMemory, Errno> {
        let mut state = self.shared.state();
        if len > MOST_MEMORY - state.allocated.min(MOST_MEMORY) {
            return Err(Errno::ENOMEM);
        }
        let inner = self.inner.allocate(len)?;
        for at in (0..inner.len()).step_by(PAGE as usize) {
            let address = inner.device_address(at).ok_or(Errno::EFAULT)?;
            // SAFETY: M1: in the memory.
            let place = unsafe { inner.as_ptr().add(at) };
            state.pages.insert(address, place.as_ptr().expose_provenance());
        }
        state.allocated += inner.len();
        drop(state);
        Ok(MeddledMemory { inner, shared: self.shared.clone() })
    }

    unsafe fn pin(&self, start: NonNull<u8>, len: usize) -> Result<Lent, Errno> {
        // SAFETY: M1, M2: our caller promises it.
        unsafe { self.inner.pin(start, len) }
    }

    fn pin_device(
        &self,
        owner: BusAddress,
        bar: u8,
        offset: u64,
        len: usize,
    ) -> Result<Lent, Errno> {
        self.inner.pin_device(owner, bar, offset, len)
    }

    fn interrupts(&self, vectors: u16) -> Result<VirtualInterrupts, Errno> {
        self.inner.interrupts(vectors)
    }

    fn reset(&self) -> Result<(), Errno> {
        self.inner.reset()
    }

    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn random(&self) -> Result<u32, Errno> {
        self.inner.random()
    }

    fn now(&self) -> Duration {
        self.shared.state().now
    }

    fn pause(&self, time: Duration) {
        {
            let mut state = self.shared.state();
            state.now += time.max(PAUSE);
            state.pauses += 1;
            assert!(state.pauses < MOST_PAUSES, "something is waited for without a bound");
        }
        self.inner.pause(time);
        // What the NIC has reported by itself.
        self.shared.carry_events();
    }
}
