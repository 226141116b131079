//! The C library's functions that take a path. A path of an RDMA device leads to the directory that
//! describes the virtual one, and the verbs file is opened here; any other goes on as it is.

use crate::device::{Device, device};
use crate::{interpose, sysfs};
use libc::{c_char, c_int, c_uint, c_void, size_t, ssize_t};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;

/// Where RDMA devices are described.
const CLASS: &[u8] = b"/sys/class/infiniband";
/// Where their files are.
const FILES: &[u8] = b"/dev/infiniband/";
/// What a verbs file is a descriptor of.
const NULL: &CStr = c"/dev/null";

/// Where a path leads.
struct Redirected {
    device: &'static Device,
    path: CString,
    /// It is the verbs file.
    verbs: bool,
}

/// Where `path` leads, if not to what it says.
fn redirect(path: *const c_char) -> Option<Redirected> {
    if path.is_null() {
        return None;
    }
    // SAFETY: L1: a string with its end, says the program.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if let Some(rest) = bytes.strip_prefix(CLASS) {
        // `infiniband`, `infiniband_verbs`, and what is below; not `infiniband_cm`.
        let name = rest.split(|byte| *byte == b'/').next();
        if !matches!(name, Some(b"" | b"_verbs")) {
            return None;
        }
        let device = device()?;
        let mut moved = device.sysfs().as_os_str().as_bytes().to_vec();
        moved.extend_from_slice(bytes.strip_prefix(b"/sys").unwrap_or_default());
        return Some(Redirected { device, path: CString::new(moved).ok()?, verbs: false });
    }
    let name = bytes.strip_prefix(FILES)?;
    if name != sysfs::VERBS.as_bytes() {
        return None;
    }
    Some(Redirected { device: device()?, path: NULL.into(), verbs: true })
}

fn open_redirected(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let Some(to) = redirect(path) else {
        return interpose::open_at(directory, path, flags, mode);
    };
    let descriptor = interpose::open_at(libc::AT_FDCWD, to.path.as_ptr(), flags, mode);
    if descriptor >= 0 && to.verbs {
        to.device.open_verbs(descriptor);
    }
    descriptor
}

/// The function that comes after ours: the C library's.
macro_rules! next {
    ($name:ident: $type:ty) => {{
        static NEXT: std::sync::atomic::AtomicPtr<c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let mut found = NEXT.load(std::sync::atomic::Ordering::Relaxed);
        if found.is_null() {
            let name = concat!(stringify!($name), "\0").as_ptr().cast();
            // SAFETY: L1: a string with its end; looking a symbol up runs no code of ours.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
            NEXT.store(found, std::sync::atomic::Ordering::Relaxed);
        }
        if found.is_null() {
            // A program cannot call what its C library has not, but ours stands there.
            std::process::abort();
        }
        // SAFETY: L1: the C library's function of this name has this type.
        unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
    }};
}

/// Functions that open a file, with the directory that a path starts from.
macro_rules! open {
    ($($name:ident($($directory:ident)?);)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            ///
            /// The mode is read whether the program passed one or not; the kernel looks at it only
            /// where a file may be made.
            ///
            /// # Safety
            ///
            /// As the C library's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                $($directory: c_int,)?
                path: *const c_char,
                flags: c_int,
                mode: c_uint,
            ) -> c_int {
                let start = libc::AT_FDCWD;
                $(let start = { let _ = start; $directory };)?
                open_redirected(start, path, flags, mode)
            }
        )*
    };
}

open! {
    open();
    open64();
    __open_2();
    __open64_2();
    openat(directory);
    openat64(directory);
    __openat_2(directory);
    __openat64_2(directory);
}

/// Functions whose first argument is a path that is only looked at.
macro_rules! look {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            ///
            /// # Safety
            ///
            /// As the C library's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(path: *const c_char $(, $argument: $type)*) -> $result {
                let next = next!(
                    $name: unsafe extern "C" fn(*const c_char $(, $type)*) -> $result
                );
                let redirected = redirect(path);
                let path = redirected.as_ref().map_or(path, |to| to.path.as_ptr());
                // SAFETY: L1: the call that the program made, but for the path.
                unsafe { next(path $(, $argument)*) }
            }
        )*
    };
}

look! {
    opendir() -> *mut libc::DIR;
    fopen(mode: *const c_char) -> *mut libc::FILE;
    fopen64(mode: *const c_char) -> *mut libc::FILE;
    access(mode: c_int) -> c_int;
    stat(to: *mut libc::stat) -> c_int;
    stat64(to: *mut libc::stat) -> c_int;
    lstat(to: *mut libc::stat) -> c_int;
    lstat64(to: *mut libc::stat) -> c_int;
    readlink(to: *mut c_char, size: size_t) -> ssize_t;
    realpath(to: *mut c_char) -> *mut c_char;
}
