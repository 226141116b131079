//! The C library's functions that take a descriptor or an address. Each looks whether that is one of
//! the device's; if not, the kernel does the call as ever.

use crate::device::{self, device};
use doorbell_hal::Errno;
use libc::{c_char, c_int, c_long, c_uint, c_ulong, c_void, off_t, size_t, ssize_t};
use std::slice;

/// `RDMA_VERBS_IOCTL` (`rdma/rdma_user_ioctl_cmds.h`).
const RDMA_VERBS_IOCTL: c_ulong = 0xc018_1b01;
/// `NETLINK_RDMA` (`linux/netlink.h`).
const NETLINK_RDMA: c_int = 20;

/// Sets `errno` and answers -1.
fn fail(errno: Errno) -> c_int {
    // SAFETY: L1: the C library's own `errno` of this thread.
    unsafe { *libc::__errno_location() = errno.0 };
    -1
}

/// Makes a system call; the C library sets `errno`.
macro_rules! system {
    ($number:ident $(, $argument:expr)*) => {
        // SAFETY: L1: the call that the program made, with its arguments.
        unsafe { libc::syscall(libc::$number $(, $argument as c_long)*) }
    };
}

/// `close(2)`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    if device::is_ours(descriptor)
        && let Some(device) = device()
        && !device.close(descriptor)
    {
        return 0;
    }
    system!(SYS_close, descriptor) as c_int
}

/// `read(2)`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(descriptor: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    if device::is_ours(descriptor)
        && let Some(device) = device()
        && !buffer.is_null()
    {
        let mut record = [0; 64];
        let room = record.len().min(length);
        if let Some(result) = device.read(descriptor, &mut record[..room]) {
            return match result {
                Ok(read) => {
                    // SAFETY: L1: `length` bytes are writable at `buffer`, says the program.
                    unsafe { buffer.cast::<u8>().copy_from(record.as_ptr(), read) };
                    read as ssize_t
                }
                Err(errno) => fail(errno) as ssize_t,
            };
        }
    }
    system!(SYS_read, descriptor, buffer, length) as ssize_t
}

/// `read(2)`, where the compiler knows the size of the buffer.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(
    descriptor: c_int,
    buffer: *mut c_void,
    length: size_t,
    size: size_t,
) -> ssize_t {
    if length > size {
        std::process::abort();
    }
    // SAFETY: L1: passed on to our caller.
    unsafe { read(descriptor, buffer, length) }
}

/// `ioctl(2)`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(
    descriptor: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    if request == RDMA_VERBS_IOCTL
        && device::is_ours(descriptor)
        && let Some(device) = device()
    {
        // SAFETY: L1: the command begins with its length in bytes, says the program; it is aligned
        // to 8 as its structure is.
        let command = unsafe {
            let length = usize::from(argument.cast::<u16>().read_unaligned());
            slice::from_raw_parts_mut(argument.cast::<u64>(), length / size_of::<u64>())
        };
        // SAFETY: L1, K2: the command's pointers are the program's, which calls the kernel.
        if let Some(result) = unsafe { device.ioctl(descriptor, command) } {
            return match result {
                Ok(()) => 0,
                Err(errno) => fail(errno),
            };
        }
    }
    system!(SYS_ioctl, descriptor, request, argument) as c_int
}

/// `mmap(2)`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
) -> *mut c_void {
    if device::is_ours(descriptor)
        && let Some(device) = device()
        && let Some(result) = device.map(descriptor, offset as u64, length)
    {
        return result.unwrap_or_else(|errno| {
            fail(errno);
            libc::MAP_FAILED
        });
    }
    system!(SYS_mmap, address, length, protection, flags, descriptor, offset) as *mut c_void
}

/// `mmap(2)`, by its other name.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: L1: passed on to our caller.
    unsafe { mmap(address, length, protection, flags, descriptor, offset) }
}

/// `munmap(2)`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    if device::has_pages()
        && let Some(device) = device()
        && device.unmap(address.addr(), length)
    {
        return 0;
    }
    system!(SYS_munmap, address, length) as c_int
}

/// Another descriptor of the same file.
fn duplicated(from: c_int, to: c_int) -> c_int {
    if to >= 0
        && device::is_ours(from)
        && let Some(device) = device()
    {
        device.duplicated(from, to);
    }
    to
}

/// `dup(2)`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(from: c_int) -> c_int {
    duplicated(from, system!(SYS_dup, from) as c_int)
}

/// `dup2(2)`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    if from == to {
        return system!(SYS_fcntl, from, libc::F_GETFD).min(0) as c_int | to;
    }
    // SAFETY: L1: passed on to our caller.
    unsafe { dup3(from, to, 0) }
}

/// `dup3(2)`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if from != to
        && device::is_ours(to)
        && let Some(device) = device()
        && !device.close(to)
    {
        // The kernel's own descriptor of an event file is in the way.
        return fail(Errno::EBUSY);
    }
    duplicated(from, system!(SYS_dup3, from, to, flags) as c_int)
}

/// `fcntl(2)`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(descriptor: c_int, command: c_int, argument: c_long) -> c_int {
    let result = system!(SYS_fcntl, descriptor, command, argument) as c_int;
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(descriptor, result),
        _ => result,
    }
}

/// `fcntl(2)`, by its other name.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(descriptor: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: L1: passed on to our caller.
    unsafe { fcntl(descriptor, command, argument) }
}

/// `socket(2)`: there is no RDMA netlink, so that libibverbs reads sysfs.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && protocol == NETLINK_RDMA {
        return fail(Errno::EPROTONOSUPPORT);
    }
    system!(SYS_socket, domain, kind, protocol) as c_int
}

/// Has a NIC that is stepped (`DOORBELL_STEPPED`) do everything that it has to do, in at most `most`
/// steps. Answers 1 if nothing is left, and 0 if something is or there is no NIC.
#[unsafe(no_mangle)]
pub extern "C" fn doorbell_shim_run_until_idle(most: u64) -> c_int {
    device().is_some_and(|device| device.run_until_idle(most)).into()
}

/// Opens a file by its redirected path.
pub fn open_at(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    system!(SYS_openat, directory, path, flags, mode) as c_int
}
