//! A kernel that does not keep to its protocol: the virtual NIC's, with a fuzzer's hand in every
//! answer.

use crate::input::Input;
use doorbell::mlx5::abi::driver;
use doorbell::mlx5::abi::verbs::ioctl::{Attribute, Header};
use doorbell::mlx5::abi::verbs::method::{self, Method};
use doorbell_hal::Errno;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::mmio::RegisterPage;
use doorbell_hal::uverbs::{EventFiles, Uverbs};
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::{Capabilities, Network, VirtualPage, VirtualRegister};
use doorbell_model::kernel::{VirtualEventFiles, VirtualMemory};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// The most bytes that one allocation gets: none of the driver's needs more here.
const MOST_MEMORY: usize = 4 << 20;

/// The verbs file of a virtual NIC. The bytes decide of each call whether it is refused, answered
/// as it should be, answered with something changed, or answered without having been made.
pub(crate) struct Meddler {
    inner: VirtualConnectx,
    shared: Arc<Shared>,
}

/// What a target keeps of its meddler.
#[derive(Clone)]
pub(crate) struct Hand(Arc<Shared>);

struct Shared {
    input: Input,
    /// Whether the answers are changed.
    meddles: AtomicBool,
    /// Every allocation, until the target lets go of them: a driver that was told that an object is
    /// gone which is not frees memory that the NIC still has.
    memory: Mutex<Vec<Arc<VirtualMemory>>>,
    /// Records that were read.
    reads: AtomicU64,
}

/// A NIC that is quick to make: with room for few objects.
pub(crate) fn small_nic(network: &Network) -> VirtualConnectx {
    let capabilities = Capabilities {
        log_max_queue_pairs: 8,
        log_max_completion_queues: 8,
        ..Capabilities::default()
    };
    VirtualConnectx::builder().network(network).capabilities(capabilities).open()
}

impl Meddler {
    /// A kernel whose answers `input` decides, once it is [told to](Hand::meddle).
    pub(crate) fn new(inner: VirtualConnectx, input: &Input) -> (Self, Hand) {
        let shared = Arc::new(Shared {
            input: input.clone(),
            meddles: AtomicBool::new(false),
            memory: Mutex::default(),
            reads: AtomicU64::new(0),
        });
        (Meddler { inner, shared: shared.clone() }, Hand(shared))
    }
}

impl Hand {
    /// Answers are the input's to decide from now on, or not any more.
    pub(crate) fn meddle(&self, meddles: bool) {
        self.0.meddles.store(meddles, Ordering::Relaxed);
    }

    /// How often an event file was read.
    pub(crate) fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Frees all memory, which nobody else may have any more.
    pub(crate) fn free(&self) {
        let memory = std::mem::take(&mut *self.0.memory());
        assert!(memory.iter().all(|memory| Arc::strong_count(memory) == 1), "memory was leaked");
    }
}

/// What becomes of a call.
enum Fate {
    /// It is made, and answered as it should be.
    Kept,
    Refused(Errno),
    /// It is made, and then something of its answer is changed.
    Changed,
    /// It is not made, but answered.
    Made,
}

impl Shared {
    fn memory(&self) -> std::sync::MutexGuard<'_, Vec<Arc<VirtualMemory>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self) -> Fate {
        if !self.meddles.load(Ordering::Relaxed) {
            return Fate::Kept;
        }
        match self.input.byte() {
            1..=8 => Fate::Refused(self.errno()),
            9..=64 => Fate::Changed,
            65..=72 => Fate::Made,
            _ => Fate::Kept,
        }
    }

    fn errno(&self) -> Errno {
        Errno(self.input.byte().into())
    }

    /// What a call answers that has nothing to change.
    fn plain<T>(&self, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        match self.fate() {
            Fate::Refused(errno) => Err(errno),
            _ => call(),
        }
    }

    /// Changes some bytes of an answer.
    fn change(&self, bytes: &mut [u8]) {
        let at = usize::from(self.input.byte());
        let new = self.input.bytes(1 + self.input.below(8));
        for (byte, new) in bytes.iter_mut().skip(at).zip(new) {
            *byte = *new;
        }
    }
}

/// The attributes of a method that the kernel answers in: at an address, and in the attribute.
fn answers(method: Method) -> (&'static [u16], &'static [u16]) {
    use method::*;
    const UAR_ALLOC: Method = driver::uar::ALLOC;
    match method {
        device::GET_CONTEXT => (&[0, 1, UHW_OUT], &[]),
        device::INVOKE_WRITE => (&[invoke_write::CORE_OUT, UHW_OUT], &[]),
        device::QUERY_PORT => (&[query_port::RESP], &[]),
        device::QUERY_GID_TABLE => {
            (&[query_gid_table::RESP_ENTRIES, query_gid_table::RESP_NUM_ENTRIES], &[])
        }
        cq::CREATE => (&[create_cq::RESP_CQE, UHW_OUT], &[create_cq::HANDLE]),
        cq::DESTROY => (&[destroy_cq::RESP], &[]),
        qp::CREATE => {
            (&[create_qp::RESP_CAP, create_qp::RESP_QP_NUM, UHW_OUT], &[create_qp::HANDLE])
        }
        qp::DESTROY => (&[destroy_qp::RESP], &[]),
        async_event::ALLOC => (&[], &[async_event_alloc::FD_HANDLE]),
        UAR_ALLOC => (
            &[
                driver::uar_alloc::MMAP_OFFSET,
                driver::uar_alloc::MMAP_LENGTH,
                driver::uar_alloc::PAGE_ID,
            ],
            &[driver::uar_alloc::HANDLE],
        ),
        _ => (&[], &[]),
    }
}

/// Changes an answer: one attribute, or all of them.
///
/// # Safety
///
/// K2: the command's pointers are valid for the writes of its method.
unsafe fn change(command: &mut [u64], shared: &Shared, all: bool) {
    let (head, tail) = command.as_mut_bytes().split_at_mut(size_of::<Header>());
    let Ok(header) = Header::read_from_bytes(head) else { return };
    let (pointed, carried) = answers(header.method());
    let count = pointed.len() + carried.len();
    if count == 0 {
        return;
    }
    let chosen = if all { None } else { Some(shared.input.below(count)) };
    for bytes in tail.chunks_mut(size_of::<Attribute>()) {
        let Ok(attribute) = Attribute::mut_from_bytes(bytes) else { continue };
        let id = attribute.attr_id;
        let is_chosen = |place: usize| chosen.is_none_or(|chosen| chosen == place);
        if let Some(place) = pointed.iter().position(|&known| known == id)
            && is_chosen(place)
        {
            let start = std::ptr::with_exposed_provenance_mut(attribute.data as usize);
            // SAFETY: K2: an answer of the method, which our caller says is writable for its length
            // and nobody else's meanwhile.
            shared.change(unsafe { std::slice::from_raw_parts_mut(start, attribute.len.into()) });
        } else if let Some(place) = carried.iter().position(|&known| known == id)
            && is_chosen(pointed.len() + place)
        {
            attribute.data = match shared.input.flag() {
                false => shared.input.byte().into(),
                true => shared.input.double(),
            };
        }
    }
}

// SAFETY: K1: commands go to the virtual NIC's kernel, which keeps the promise; what is changed of
// its answers is where commands ask for them. Memory that the device may still have, because the
// driver was told otherwise, is kept until the target frees it.
unsafe impl Uverbs for Meddler {
    type Memory = MeddledMemory;
    type Page = MeddledPage;
    type EventFiles = MeddledEvents;

    fn device_name(&self) -> &str {
        self.inner.device_name()
    }

    unsafe fn ioctl(&self, command: &mut [u64]) -> Result<(), Errno> {
        let fate = self.shared.fate();
        if let Fate::Refused(errno) = fate {
            return Err(errno);
        }
        if !matches!(fate, Fate::Made) {
            // SAFETY: K2, passed on to our caller.
            unsafe { self.inner.ioctl(command) }?;
        }
        match fate {
            // SAFETY: K2, passed on to our caller.
            Fate::Changed => unsafe { change(command, &self.shared, false) },
            // SAFETY: K2, passed on to our caller.
            Fate::Made => unsafe { change(command, &self.shared, true) },
            _ => {}
        }
        Ok(())
    }

    fn map(&self, offset: u64, len: usize) -> Result<MeddledPage, Errno> {
        let registers = match self.shared.fate() {
            Fate::Refused(errno) => return Err(errno),
            Fate::Kept => usize::MAX,
            Fate::Changed | Fate::Made => self.shared.input.half().into(),
        };
        Ok(MeddledPage { inner: self.inner.map(offset, len)?, registers })
    }

    fn allocate(&self, len: usize) -> Result<MeddledMemory, Errno> {
        if len > MOST_MEMORY {
            return Err(Errno::ENOMEM);
        }
        let memory = Arc::new(self.shared.plain(|| self.inner.allocate(len))?);
        self.shared.memory().push(memory.clone());
        Ok(MeddledMemory(memory))
    }

    unsafe fn event_files(
        &self,
        completion: i32,
        asynchronous: i32,
    ) -> Result<MeddledEvents, Errno> {
        // SAFETY: K3: descriptors of this file that were taken, or changed, are refused.
        let inner = unsafe { self.inner.event_files(completion, asynchronous) };
        let shared = self.shared.clone();
        self.shared.plain(|| Ok(MeddledEvents { inner: inner?, shared }))
    }

    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn random(&self) -> Result<u32, Errno> {
        match self.shared.fate() {
            Fate::Refused(errno) => Err(errno),
            Fate::Kept => self.inner.random(),
            Fate::Changed | Fate::Made => Ok(self.shared.input.word()),
        }
    }
}

/// Memory of the virtual NIC's kernel, which its meddler has, too.
pub(crate) struct MeddledMemory(Arc<VirtualMemory>);

// SAFETY: M1: the memory is the virtual NIC's, which keeps the promise until this and the meddler's
// share are gone; the meddler's gives no access.
unsafe impl DmaMemory for MeddledMemory {
    fn as_ptr(&self) -> NonNull<u8> {
        self.0.as_ptr()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A page with fewer registers than it should have.
pub(crate) struct MeddledPage {
    inner: VirtualPage,
    registers: usize,
}

impl RegisterPage for MeddledPage {
    type Register = VirtualRegister;

    fn register(&self, offset: usize, len: usize) -> Option<VirtualRegister> {
        if offset.checked_add(len)? > self.registers {
            return None;
        }
        self.inner.register(offset, len)
    }
}

/// Event files that answer what the input says.
pub(crate) struct MeddledEvents {
    inner: VirtualEventFiles,
    shared: Arc<Shared>,
}

impl MeddledEvents {
    fn read(
        &self,
        buffer: &mut [u8],
        read: impl FnOnce(&VirtualEventFiles, &mut [u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        self.shared.reads.fetch_add(1, Ordering::Relaxed);
        match self.shared.fate() {
            Fate::Refused(errno) => Err(errno),
            Fate::Kept => read(&self.inner, buffer),
            Fate::Changed => {
                let record = self.shared.input.bytes(buffer.len());
                buffer[..record.len()].copy_from_slice(record);
                Ok(buffer.len())
            }
            Fate::Made => {
                let record = self.shared.input.bytes(buffer.len());
                buffer[..record.len()].copy_from_slice(record);
                Ok(self.shared.input.half().into())
            }
        }
    }
}

impl EventFiles for MeddledEvents {
    fn read_completion(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.read(buffer, |files, buffer| files.read_completion(buffer))
    }

    fn read_asynchronous(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.read(buffer, |files, buffer| files.read_asynchronous(buffer))
    }

    fn wait(&self, _: Duration) -> Result<(), Errno> {
        // Nobody waits for a fuzzer.
        self.shared.plain(|| self.inner.wait(Duration::ZERO))
    }
}
