//! The device, made when the process first asks for it, and its open files.

use crate::settings::{FabricChoice, Settings};
use crate::sysfs;
use doorbell_hal::Errno;
use doorbell_hal::linux::MappedPage;
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::connectx::Network;
use doorbell_model::fabric::{LocalFabric, UdpFabric};
use doorbell_model::kernel::{Control, LinkLayer, VirtualEventFile};
use doorbell_model::network::Shown;
use doorbell_model::{VirtualConnectx, WatchedConnectx};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The device of this process.
pub struct Device {
    /// Where `class` and `devices` are.
    sysfs: PathBuf,
    /// What files are opened of.
    nic: VirtualConnectx,
    control: Control,
    trace: bool,
    process: u32,
    /// Where the NIC's counters are shown.
    shown: Mutex<Option<Shown>>,
    open: Mutex<Open>,
}

/// What the process has open.
#[derive(Default)]
struct Open {
    /// Verbs files by descriptor: several after `dup`.
    files: HashMap<i32, Arc<WatchedConnectx>>,
    /// Event files by descriptor.
    events: HashMap<i32, VirtualEventFile>,
    /// Mapped register pages by address.
    pages: HashMap<usize, (usize, MappedPage)>,
}

/// Which descriptors are the device's: a bit for each, so that calls about others cost one load.
static DESCRIPTORS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// How many register pages are mapped.
static PAGES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread is in here already: the C library's functions do what they always do.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `with` unless this thread does so already.
fn enter<R>(with: impl FnOnce() -> R) -> Option<R> {
    INSIDE.with(|inside| {
        if inside.replace(true) {
            return None;
        }
        let result = with();
        inside.set(false);
        Some(result)
    })
}

/// Whether `descriptor` is one of the device's.
pub fn is_ours(descriptor: i32) -> bool {
    place(descriptor).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
}

fn mark(descriptor: i32, ours: bool) {
    match (place(descriptor), ours) {
        (Some((word, bit)), true) => word.fetch_or(bit, Ordering::AcqRel),
        (Some((word, bit)), false) => word.fetch_and(!bit, Ordering::AcqRel),
        (None, _) => 0,
    };
}

/// The bit of a descriptor; none for a descriptor higher than processes have.
fn place(descriptor: i32) -> Option<(&'static AtomicU64, u64)> {
    let descriptor = usize::try_from(descriptor).ok()?;
    Some((DESCRIPTORS.get(descriptor / 64)?, 1 << (descriptor % 64)))
}

/// The device, if the process has asked for it.
static DEVICE: OnceLock<Option<Device>> = OnceLock::new();

/// The device; `None` where it cannot be made, in a child of the process that made it, and where
/// the device itself is asking.
pub fn device() -> Option<&'static Device> {
    let device = match DEVICE.get() {
        Some(made) => made.as_ref()?,
        None => enter(|| DEVICE.get_or_init(make)).and_then(Option::as_ref)?,
    };
    (std::process::id() == device.process).then_some(device)
}

/// A line on standard error, in one piece: several processes may share it.
fn complain(what: impl Display) {
    // Where nobody listens, there is nobody to tell.
    let _ = io::stderr().write_all(format!("doorbell shim: {what}\n").as_bytes());
}

fn make() -> Option<Device> {
    match try_make() {
        Ok(device) => Some(device),
        Err(error) => {
            complain(format_args!("no virtual NIC for this process: {error}"));
            None
        }
    }
}

fn try_make() -> io::Result<Device> {
    let settings = Settings::from_environment().map_err(io::Error::other)?;
    let Settings { fabric, link, stepped, trace } = settings;
    let network = Network::builder().on_thread(wake_promptly);
    let network = match stepped {
        Some(seed) => network.stepped(seed),
        None => network,
    };
    let nic = VirtualConnectx::builder().name(sysfs::DEVICE).link_layer(link).peers_are_processes();
    let mut wire = None;
    let (nic, directory, number) = match fabric {
        FabricChoice::Directory(directory) => {
            let fabric = LocalFabric::join(&directory)?;
            let number = fabric.number();
            (nic.network(&network.fabric(fabric).build()), directory, number)
        }
        FabricChoice::Udp(address, mtu) => {
            if link == LinkLayer::InfiniBand {
                return Err(io::Error::other("an InfiniBand port is on no IP network"));
            }
            let fabric = UdpFabric::bind(&[address])?;
            wire = Some(fabric.counters());
            let network = network.fabric(fabric).build();
            let user = rustix::process::geteuid().as_raw();
            let directory = std::env::temp_dir().join(format!("doorbell-udp-{user}"));
            let nic = nic.network(&network).address(Some(address)).mtu(mtu);
            (nic, directory, UdpFabric::number_of(address))
        }
    };
    let nic = nic.number(number).open();
    let control = nic.control();
    let root = directory.join(format!("sysfs-{number}"));
    match std::fs::remove_dir_all(&root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let null = std::fs::metadata("/dev/null")?.rdev();
    let verbs = (rustix::fs::major(null), rustix::fs::minor(null));
    sysfs::describe(&root, &control, link, verbs)?;
    let program = std::env::args_os().next().unwrap_or_default();
    let name = format!("{} of {}", sysfs::DEVICE, program.display());
    // A program that nobody can look into runs all the same.
    let shown = control.network().show_counters(&name, wire).ok();
    // SAFETY: L1: a function of no arguments, for when the process ends.
    unsafe { libc::atexit(say_goodbye) };
    Ok(Device {
        sysfs: root,
        nic,
        control,
        trace,
        process: std::process::id(),
        shown: Mutex::new(shown),
        open: Mutex::default(),
    })
}

/// A NIC acknowledges what it has executed. This one's thread ends with the process, before it may
/// have had its turn.
extern "C" fn say_goodbye() {
    if let Some(device) = device() {
        device.control.network().say_goodbye(Network::GOODBYE);
        device.shown.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Has the NIC's thread run soon after it wakes, where its process polls for what it brings and
/// there are no more processors than threads. Both are requests that a kernel may refuse.
fn wake_promptly() {
    /// `struct sched_attr` (`linux/sched/types.h`), as far as version 0 goes.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        /// Nanoseconds. Of an ordinary thread, since Linux 6.12: how long it runs at a time. Threads
        /// with shorter times come first.
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const SLICE: u64 = 100_000;
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: 0,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: SLICE,
        deadline: 0,
        period: 0,
    };
    // SAFETY: L1: of this thread alone; the structure is read, for the size that it says.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

impl Device {
    /// Has a NIC that is stepped do everything that it has to do, in at most `most` steps.
    pub fn run_until_idle(&self, most: u64) -> bool {
        self.control.network().run_until_idle(most)
    }

    /// The directory that stands for `/sys`.
    pub fn sysfs(&self) -> &PathBuf {
        &self.sysfs
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the verbs file as `descriptor`, which is one of `/dev/null`.
    pub fn open_verbs(&self, descriptor: i32) {
        let file = Arc::new(WatchedConnectx::new(self.nic.open_again()));
        self.open().files.insert(descriptor, file);
        mark(descriptor, true);
    }

    /// `to` is another descriptor of what `from` is one of.
    pub fn duplicated(&self, from: i32, to: i32) {
        let mut open = self.open();
        if let Some(file) = open.files.get(&from).cloned() {
            open.files.insert(to, file);
        } else if let Some(file) = open.events.get(&from).cloned() {
            open.events.insert(to, file);
        } else {
            return;
        }
        mark(to, true);
    }

    fn file(&self, descriptor: i32) -> Option<Arc<WatchedConnectx>> {
        self.open().files.get(&descriptor).cloned()
    }

    /// An event file's read; `None` if `descriptor` is no event file.
    pub fn read(&self, descriptor: i32, buffer: &mut [u8]) -> Option<Result<usize, Errno>> {
        let file = self.open().events.get(&descriptor).cloned()?;
        Some(file.read(buffer))
    }

    /// The `RDMA_VERBS_IOCTL` of a verbs file; `None` if `descriptor` is none.
    ///
    /// # Safety
    ///
    /// As [`Uverbs::ioctl`].
    pub unsafe fn ioctl(&self, descriptor: i32, command: &mut [u64]) -> Option<Result<(), Errno>> {
        let file = self.file(descriptor)?;
        // SAFETY: K2, passed on to our caller.
        let result = enter(|| unsafe { file.ioctl(command) })?;
        if self.trace {
            self.say(result);
        }
        if result.is_ok() {
            self.adopt(&file);
        }
        Some(result)
    }

    /// What was asked for, and what came of it.
    fn say(&self, result: Result<(), Errno>) {
        let calls = self.control.calls();
        let name = calls.last().map_or("", String::as_str);
        match result {
            Ok(()) => complain(name),
            Err(errno) => complain(format_args!("{name}: {errno}")),
        }
        self.control.forget_calls();
    }

    /// Learns of the event files that a command made. They wait, as the kernel makes them.
    fn adopt(&self, file: &WatchedConnectx) {
        let mut open = self.open();
        for made in file.open_event_files() {
            let descriptor = made.descriptor();
            if let std::collections::hash_map::Entry::Vacant(place) = open.events.entry(descriptor)
            {
                let _ = made.set_waiting(true);
                place.insert(made);
                mark(descriptor, true);
            }
        }
    }

    /// Maps a register page; `None` if `descriptor` is no verbs file.
    pub fn map(
        &self,
        descriptor: i32,
        offset: u64,
        length: usize,
    ) -> Option<Result<*mut c_void, Errno>> {
        let file = self.file(descriptor)?;
        let mapped = enter(|| file.map(offset, length))?;
        if self.trace {
            self.say(mapped.as_ref().map(|_| ()).map_err(|errno| *errno));
        }
        Some(mapped.map(|page| {
            let start = page.start().as_ptr();
            self.open().pages.insert(start.addr(), (length, page));
            PAGES.fetch_add(1, Ordering::AcqRel);
            start.cast()
        }))
    }

    /// Unmaps a register page. Answers whether there was one.
    pub fn unmap(&self, address: usize, length: usize) -> bool {
        let removed = {
            let mut open = self.open();
            match open.pages.get(&address) {
                Some((mapped, _)) if *mapped == length => open.pages.remove(&address),
                _ => None,
            }
        };
        if removed.is_some() {
            PAGES.fetch_sub(1, Ordering::AcqRel);
        }
        removed.is_some()
    }

    /// Closes `descriptor`. Answers whether the C library is to close it, too.
    pub fn close(&self, descriptor: i32) -> bool {
        mark(descriptor, false);
        let mut open = self.open();
        if let Some(file) = open.files.remove(&descriptor) {
            drop(open);
            let last = Arc::strong_count(&file) == 1;
            // The last descriptor destroys what was made through the file.
            enter(|| drop(file));
            if self.trace && last {
                complain(format_args!("closed; so far: {:?}", self.control.counters()));
                self.control.log().lines().for_each(complain);
            }
            return true;
        }
        let Some(event) = open.events.remove(&descriptor) else { return true };
        let number = event.descriptor();
        if !open.events.values().any(|other| other.descriptor() == number) {
            event.close();
        }
        // The kernel's own descriptor stays until the kernel has forgotten the file.
        descriptor != number
    }
}

/// Whether any register page is mapped.
pub fn has_pages() -> bool {
    PAGES.load(Ordering::Acquire) != 0
}
