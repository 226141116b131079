//! The kernel's reason for refusing a call.

use core::fmt;

/// An error number of Linux, such as 12 for `ENOMEM`. Displays as the name and the number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! names {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// The numbers that a verbs file answers with (`asm-generic/errno-base.h`,
        /// `asm-generic/errno.h`).
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno($number);)*

            /// The symbol and the meaning of this number, or `None` for one not listed here.
            fn described(self) -> Option<(&'static str, &'static str)> {
                match self.0 {
                    $($number => Some((stringify!($name), $text)),)*
                    _ => None,
                }
            }
        }
    };
}

names! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such object";
    EINTR = 4, "interrupted by a signal";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such device or address";
    EBADF = 9, "not an open file";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory, or over the locked-memory limit (RLIMIT_MEMLOCK)";
    EACCES = 13, "permission denied";
    EFAULT = 14, "address not mapped as the call needs it";
    EBUSY = 16, "still in use";
    EEXIST = 17, "exists already";
    ENODEV = 19, "no such device";
    EINVAL = 22, "invalid argument";
    EMFILE = 24, "too many open files";
    ENOTTY = 25, "not a verbs file";
    ENOSPC = 28, "no space left";
    ENOSYS = 38, "not implemented";
    ENODATA = 61, "no data";
    EPROTO = 71, "the answer does not follow the protocol";
    EPROTONOSUPPORT = 93, "call not known to this kernel or device";
    EOPNOTSUPP = 95, "not supported by this kernel or device";
    ETIMEDOUT = 110, "timed out";
    ECANCELED = 125, "canceled";
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.described() {
            Some((name, text)) => write!(f, "{text} ({name})"),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.described() {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl core::error::Error for Errno {}

#[cfg(feature = "std")]
impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        std::io::Error::from_raw_os_error(errno.0)
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Errno(errno.raw_os_error())
    }
}
