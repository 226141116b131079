//! A function on a socket, as a machine reaches it (the vfio-user protocol).

use super::Function;
use super::interrupts::VECTORS;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend, ServerRegion};

/// Regions of a PCI function (`VFIO_PCI_*_REGION_INDEX`): six BARs, a ROM, the configuration space,
/// and VGA's.
mod region {
    pub(super) const LAST_BAR: u32 = 5;
    pub(super) const CONFIGURATION: u32 = 7;
    pub(super) const COUNT: u32 = 9;
    /// May be read and written (`VFIO_REGION_INFO_FLAG_*`).
    pub(super) const READ_WRITE: u32 = 3;
}

/// Kinds of interrupts (`VFIO_PCI_*_IRQ_INDEX`): INTx, MSI, MSI-X, errors, requests.
mod interrupt {
    pub(super) const MSIX: u32 = 2;
    pub(super) const COUNTS: [u32; 5] = [0, 0, super::VECTORS as u32, 1, 1];
    /// Signalled by event files; a count that does not change (`VFIO_IRQ_INFO_*`).
    pub(super) const EVENT_FILE: u32 = 1;
    pub(super) const FIXED: u32 = 8;
    /// What a change of listeners brings (`VFIO_IRQ_SET_DATA_NONE`).
    pub(super) const NO_DATA: u32 = 1;
}

/// Bits by which a machine says that it unmaps everything: the specification's, and QEMU's.
const UNMAP_ALL: u32 = 1 << 2 | 1 << 1;

/// Why a function could not be served.
#[derive(Debug)]
pub struct ServeError(vfio_user::Error);

impl std::fmt::Display for ServeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ServeError {}

/// A socket that a machine can connect to.
pub struct Server(vfio_user::Server);

impl Server {
    /// Listens at `path`, where nothing may be yet, for machines that will be served a function like
    /// `function`.
    pub fn bind(path: &Path, function: &dyn Function) -> Result<Self, ServeError> {
        let interrupts = (0..).zip(interrupt::COUNTS).map(|(index, count)| IrqInfo {
            index,
            flags: interrupt::EVENT_FILE | interrupt::FIXED,
            count,
        });
        let regions = (0..region::COUNT).map(|index| region(index, function));
        vfio_user::Server::new(path, true, interrupts.collect(), regions.collect())
            .map(Server)
            .map_err(ServeError)
    }

    /// Waits for a machine, and serves `function` to it until it hangs up. `log` is told what went
    /// wrong, a line each.
    pub fn run(
        &self,
        function: &Arc<Mutex<dyn Function>>,
        log: &mut dyn FnMut(&str),
    ) -> Result<(), ServeError> {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(function, &ended)).thread().clone();
            let mut backend = Backend { function, log, watcher: watcher.clone() };
            let served = self.0.run(&mut backend).map_err(ServeError);
            ended.store(true, Ordering::Release);
            watcher.unpark();
            served
        })
    }
}

/// Passes on stores that nothing followed.
fn watch(function: &Mutex<dyn Function>, ended: &AtomicBool) {
    while !ended.load(Ordering::Acquire) {
        let waiting = function.lock().unwrap_or_else(PoisonError::into_inner).serve_waiting();
        match waiting {
            Some(left) => std::thread::sleep(left),
            None => std::thread::park(),
        }
    }
}

fn region(index: u32, function: &dyn Function) -> ServerRegion {
    let size = match index {
        ..=region::LAST_BAR => function.bar_bytes(index as u8),
        region::CONFIGURATION => super::configuration::BYTES as u64,
        _ => 0,
    };
    let region_info = vfio_bindings::bindings::vfio::vfio_region_info {
        argsz: size_of::<vfio_bindings::bindings::vfio::vfio_region_info>() as u32,
        index,
        flags: if size > 0 { region::READ_WRITE } else { 0 },
        size,
        ..Default::default()
    };
    ServerRegion { region_info, sparse_areas: Vec::new(), mmap_fd: None }
}

/// A function while a machine is connected to it.
struct Backend<'a> {
    function: &'a Mutex<dyn Function>,
    log: &'a mut dyn FnMut(&str),
    /// The thread that passes on stores which nothing follows.
    watcher: Thread,
}

impl Backend<'_> {
    fn function(&self) -> MutexGuard<'_, dyn Function + 'static> {
        self.function.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&mut self) {
        let lines = self.function().take_log();
        for line in lines {
            (self.log)(&line);
        }
    }
}

impl ServerBackend for Backend<'_> {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match region {
            ..=region::LAST_BAR => self.function().read_bar(region as u8, offset, data),
            region::CONFIGURATION => self.function().read_configuration(offset, data),
            _ => data.fill(0),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        match region {
            ..=region::LAST_BAR => self.function().write_bar(region as u8, offset, data),
            region::CONFIGURATION => self.function().write_configuration(offset, data),
            _ => {}
        }
        if self.function().is_waiting() {
            self.watcher.unpark();
        }
        self.report();
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        // Memory that cannot be shared, as ROMs: the function does not reach it.
        let Some(file) = fd else { return Ok(()) };
        let writable = flags.contains(DmaMapFlags::WRITE);
        let mapped = self.function().map(address, size, &file, offset, writable);
        mapped.map_err(|why| {
            (self.log)(&format!("{size:#x} bytes at {address:#x} are not mapped: {why}"));
            io::Error::from(io::ErrorKind::InvalidInput)
        })
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let all = flags.bits() & UNMAP_ALL != 0 && size == 0;
        self.function().unmap(address, (!all).then_some(size));
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.function().reset();
        self.report();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        if index != interrupt::MSIX {
            return Ok(());
        }
        let function = self.function();
        let vectors = function.interrupts();
        if flags & interrupt::NO_DATA != 0 && count == 0 {
            vectors.disable();
            return Ok(());
        }
        let mut files = fds.into_iter();
        for vector in start..start.saturating_add(count).min(VECTORS.into()) {
            vectors.listen(vector, files.next());
        }
        Ok(())
    }
}
