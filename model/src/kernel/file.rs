//! An open verbs file.

use super::attributes::{self, Access, Call, Lookup};
use super::builder::Builder;
use super::control::Control;
use super::device::Device;
use super::event_file::{EventQueue, VirtualEventFiles};
use super::objects::{Object, Objects};
use super::{invoke, methods};
use crate::connectx::VirtualPage;
use doorbell::mlx5::abi::verbs::ioctl::DRIVER_MLX5;
use doorbell::mlx5::abi::verbs::method::object;
use doorbell_hal::Errno;
use doorbell_hal::linux::Anonymous;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::uverbs::Uverbs;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open verbs file of a virtual ConnectX: what a driver opens a NIC with.
///
/// Dropping it and the last of its mapped register pages destroys every object that was made through
/// it: a mapping holds a file open.
///
/// ```
/// use doorbell_hal::uverbs::Uverbs;
/// use doorbell_model::VirtualConnectx;
///
/// let file = VirtualConnectx::builder().name("virtual-connectx").open();
/// assert_eq!(file.device_name(), "virtual-connectx");
/// // The driver takes the file; the control stays with the test.
/// let control = file.control();
/// assert_eq!(control.objects().total(), 0);
/// ```
pub struct VirtualConnectx {
    opened: Arc<Opened>,
}

/// What holds a file open: closes it when it is gone.
pub(super) struct Opened(Arc<File>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A file and its device.
pub(super) struct File {
    pub(super) device: Arc<Device>,
    inner: Mutex<Inner>,
}

/// What a file has.
#[derive(Default)]
pub(super) struct Inner {
    /// The context, once there is one.
    pub(super) context: Option<Context>,
    pub(super) objects: Objects,
    /// Event files that the process has not closed, with the kind of object.
    pub(super) event_files: Vec<(u16, Arc<EventQueue>)>,
    /// The file of asynchronous events that was made first.
    pub(super) default_events: Option<Arc<EventQueue>>,
}

/// What the context was made with.
pub(super) struct Context {
    /// The version of completions.
    pub(super) cqe_version: u8,
    /// Register pages are made one by one.
    pub(super) dynamic_uars: bool,
    /// The register pages that came with the context.
    pub(super) static_uars: Vec<u32>,
}

/// A call's view of the file.
pub(super) struct State<'a> {
    pub(super) device: &'a Arc<Device>,
    pub(super) inner: &'a mut Inner,
    /// What is left of an object that this call destroyed.
    pub(super) remains: Remains,
}

/// What the kernel remembers of an object that it destroyed.
#[derive(Clone, Copy, Default)]
pub(super) struct Remains {
    /// Completion events that were read.
    pub(super) completions: u32,
    /// Asynchronous events that were read.
    pub(super) asynchronous: u32,
}

/// What a method did.
pub(super) enum Outcome {
    /// What it was asked for; it made no object.
    Done,
    /// It made an object, for the handle that the call took.
    Made(Object),
}

impl VirtualConnectx {
    /// A NIC to be described.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn open(device: Arc<Device>) -> Self {
        let file = Arc::new(File { device, inner: Mutex::default() });
        let mut files = file.device.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(&file));
        drop(files);
        VirtualConnectx { opened: Arc::new(Opened(file)) }
    }

    pub(super) fn file(&self) -> &File {
        &self.opened.0
    }

    /// Another open file of the same NIC, as another process would open it.
    pub fn open_again(&self) -> Self {
        Self::open(Arc::clone(&self.file().device))
    }

    /// A hand on the NIC that stays when a driver takes the file.
    pub fn control(&self) -> Control {
        Control::new(Arc::clone(&self.file().device))
    }
}

impl File {
    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `ib_uverbs_ioctl`.
    ///
    /// # Safety
    ///
    /// K2, for the command.
    unsafe fn ioctl(&self, command: &mut [u64]) -> Result<(), Errno> {
        let header = attributes::header(command);
        let method = header.ok().and_then(|header| methods::find(header.method()));
        match (header, method) {
            (_, Some(known)) if known.name == "INVOKE_WRITE" => {
                self.device.called(&invoke::name(command))?;
            }
            (_, Some(known)) => self.device.called(known.name)?,
            (Ok(header), None) => {
                let (object, method) = (header.object_id, header.method_id);
                self.device.called(&format!("object {object:#x} method {method:#x}"))?;
            }
            (Err(_), None) => self.device.called("malformed command")?,
        }
        let header = header?;
        if header.driver_id != DRIVER_MLX5 {
            return Err(Errno::EINVAL);
        }
        let known = method.ok_or(Errno::EPROTONOSUPPORT)?;
        if self.device.is_removed() && known.destroys.is_none() {
            return Err(Errno::EIO);
        }
        let mut inner = self.inner();
        let mut state =
            State { device: &self.device, inner: &mut inner, remains: Remains::default() };
        let mut call = Call::new(command);
        let mut made = None;
        // SAFETY: K2, passed on to our caller.
        let result =
            unsafe { run(&mut state, &mut call, known, header.num_attrs.into(), &mut made) };
        if let (Err(_), Some(handle)) = (&result, made) {
            state.inner.objects.give_back(handle);
        }
        result
    }
}

/// `ib_uverbs_run_method`. Puts the handle that it took for a new object into `made`.
///
/// # Safety
///
/// K2, for the call.
unsafe fn run(
    state: &mut State<'_>,
    call: &mut Call<'_>,
    known: &methods::Known,
    count: usize,
    made: &mut Option<u32>,
) -> Result<(), Errno> {
    let knows = known.knows();
    for index in 0..count {
        // SAFETY: K2, passed on to our caller.
        let lookup = unsafe { call.take(index, &knows) }?;
        if let Some(lookup) = lookup {
            state.look_up(call, lookup, made)?;
        }
    }
    if !call.is_complete(&knows) {
        return Err(Errno::EINVAL);
    }
    if let Some(attribute) = known.destroys {
        let handle = call.handle(attribute).ok_or(Errno::ENOENT)?;
        state.destroy(handle)?;
    }
    // SAFETY: K2, passed on to our caller; the attributes are checked.
    let outcome = unsafe { (known.run)(state, call) }?;
    if let (Outcome::Made(object), Some(handle)) = (outcome, *made) {
        state.inner.objects.commit(handle, object);
    }
    if known.driver_data {
        call.mark_output(doorbell::mlx5::abi::verbs::method::UHW_OUT);
    }
    Ok(())
}

impl State<'_> {
    /// `uverbs_get_uobject_from_file`.
    fn look_up(
        &mut self,
        call: &mut Call<'_>,
        lookup: Lookup,
        made: &mut Option<u32>,
    ) -> Result<(), Errno> {
        match lookup.access {
            Access::New => {
                self.context()?;
                if lookup.file {
                    return Ok(());
                }
                let handle = self.inner.objects.take_handle();
                *made = Some(handle);
                call.set_data(lookup.id, handle.into());
            }
            Access::Read | Access::Destroy if lookup.file => {
                self.event_file(lookup.value as i64, lookup.object)?;
            }
            Access::Read | Access::Destroy => {
                self.inner.objects.find(lookup.value, lookup.object)?;
            }
        }
        Ok(())
    }

    /// The context (`ib_uverbs_get_ucontext`).
    pub(super) fn context(&self) -> Result<&Context, Errno> {
        self.inner.context.as_ref().ok_or(Errno::EINVAL)
    }

    /// The event file with a descriptor (`lookup_get_fd_uobject`).
    pub(super) fn event_file(&self, descriptor: i64, kind: u16) -> Result<Arc<EventQueue>, Errno> {
        let descriptor = i32::try_from(descriptor).map_err(|_| Errno::EINVAL)?;
        let found = self.inner.event_files.iter().find(|(known, queue)| {
            *known == kind && queue.is_open() && queue.descriptor() == descriptor
        });
        found.map(|(_, queue)| Arc::clone(queue)).ok_or(Errno::EBADF)
    }

    /// Makes an event file of `kind` with records of `length` bytes.
    pub(super) fn make_event_file(
        &mut self,
        kind: u16,
        length: usize,
    ) -> Result<Arc<EventQueue>, Errno> {
        self.context()?;
        let queue = EventQueue::new(length)?;
        self.inner.event_files.retain(|(_, queue)| queue.is_open());
        self.inner.event_files.push((kind, Arc::clone(&queue)));
        Ok(queue)
    }

    /// Destroys the object behind `handle` (`uobj_destroy`).
    pub(super) fn destroy(&mut self, handle: u32) -> Result<(), Errno> {
        if self.inner.objects.is_used(handle) {
            return Err(Errno::EBUSY);
        }
        let Some(object) = self.inner.objects.remove(handle) else { return Err(Errno::ENOENT) };
        self.remains = release(self.device, object);
        Ok(())
    }
}

/// Lets go of everything behind an object. The NIC does not touch its memory after this.
fn release(device: &Device, object: Object) -> Remains {
    match object {
        Object::ProtectionDomain(domain) => {
            let _ = device.nic(|nic, _, _| nic.destroy_domain(domain.number));
            Remains::default()
        }
        Object::Region(region) => {
            let _ = device.nic(|nic, fabric, _| nic.destroy_key(region.key, fabric));
            device.unpin(region.pinned);
            Remains::default()
        }
        Object::CompletionQueue(queue) => {
            let _ = device.nic(|nic, _, _| nic.destroy_completion_queue(queue.number));
            device.routes.remove_queue(queue.number);
            device.unpin(queue.pinned);
            let forget = |file: &Option<Arc<EventQueue>>| {
                file.as_ref().map_or(0, |file| file.forget(queue.route.source))
            };
            Remains {
                completions: forget(&queue.route.channel),
                asynchronous: forget(&queue.route.events),
            }
        }
        Object::QueuePair(pair) => {
            let _ = device.nic(|nic, fabric, now| nic.destroy_queue_pair(pair.number, now, fabric));
            device.routes.remove_pair(pair.number);
            device.unpin(pair.pinned);
            let events = pair.route.events.as_ref();
            Remains {
                completions: 0,
                asynchronous: events.map_or(0, |file| file.forget(pair.route.source)),
            }
        }
        // The page goes back with its last mapping.
        Object::Uar(_) => Remains::default(),
    }
}

impl File {
    /// `ib_uverbs_close`: destroys every object of the file. This is not left to the drop of the
    /// last reference, because a [`Control`] may hold one for a moment longer.
    fn close(&self) {
        let mut inner = self.inner();
        while let Some(handle) = inner.objects.last_user() {
            match inner.objects.remove(handle) {
                Some(object) => drop(release(&self.device, object)),
                None => break,
            }
        }
        if let Some(context) = inner.context.take() {
            for page in context.static_uars {
                let _ = self.device.nic(|nic, _, _| nic.free_uar(page));
            }
        }
        for (_, queue) in inner.event_files.drain(..) {
            queue.close();
        }
    }
}

// SAFETY: K1: `ioctl` copies only through the attributes of the command; objects are destroyed under
// the lock that the NIC touches memory under (D1), before the call that destroys them, or the drop that closes the file, returns;
// `allocate` is the anonymous memory of `doorbell-hal`.
unsafe impl Uverbs for VirtualConnectx {
    type Memory = VirtualMemory;
    type Page = VirtualPage;
    type EventFiles = VirtualEventFiles;

    fn device_name(&self) -> &str {
        &self.file().device.name
    }

    unsafe fn ioctl(&self, command: &mut [u64]) -> Result<(), Errno> {
        // SAFETY: K2, passed on to our caller.
        unsafe { self.file().ioctl(command) }
    }

    fn map(&self, offset: u64, len: usize) -> Result<VirtualPage, Errno> {
        self.file().device.called("mmap")?;
        super::uar::map(self.file(), &self.opened, offset, len)
    }

    fn allocate(&self, len: usize) -> Result<VirtualMemory, Errno> {
        self.file().device.called("allocate")?;
        let memory = Anonymous::new(len)?;
        self.file().device.allocations.fetch_add(1, Ordering::Relaxed);
        Ok(VirtualMemory { memory, device: Arc::clone(&self.file().device) })
    }

    unsafe fn event_files(
        &self,
        completion: i32,
        asynchronous: i32,
    ) -> Result<VirtualEventFiles, Errno> {
        let called = self.file().device.called("event_files");
        let mut inner = self.file().inner();
        let state =
            State { device: &self.file().device, inner: &mut inner, remains: Remains::default() };
        let files = [(completion, object::COMP_CHANNEL), (asynchronous, object::ASYNC_EVENT)]
            .map(|(descriptor, kind)| state.event_file(descriptor.into(), kind));
        let taken = match (&called, &files) {
            (Ok(()), [Ok(completion), Ok(asynchronous)]) => {
                VirtualEventFiles::new(Arc::clone(completion), Arc::clone(asynchronous))
            }
            (Err(errno), _) | (_, [Err(errno), _] | [_, Err(errno)]) => Err(*errno),
        };
        if taken.is_err() {
            // They were handed over, whatever comes of it.
            files.iter().flatten().for_each(|file| file.close());
        }
        taken
    }

    fn page_size(&self) -> usize {
        super::user::page_size() as usize
    }

    fn random(&self) -> Result<u32, Errno> {
        self.file().device.called("getrandom")?;
        self.file().device.network.random().map_err(|_| Errno::EIO)
    }
}

/// Memory for rings and regions, counted by its device.
pub struct VirtualMemory {
    memory: Anonymous,
    device: Arc<Device>,
}

// SAFETY: M1: kept by `Anonymous`, which this owns.
unsafe impl DmaMemory for VirtualMemory {
    fn as_ptr(&self) -> NonNull<u8> {
        self.memory.as_ptr()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }
}

impl Drop for VirtualMemory {
    fn drop(&mut self) {
        self.device.allocations.fetch_sub(1, Ordering::Relaxed);
    }
}
