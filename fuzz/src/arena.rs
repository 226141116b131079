//! Memory at a place of its own, with nothing before it and nothing after.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Memory that commands may point into, wherever they say. It is never unmapped, so that nobody who
/// was given an address in it ever reaches anything else.
pub(crate) struct Arena {
    start: NonNull<u8>,
}

// SAFETY: M1: the mapping lives as long as the process; what is done with its bytes is copies.
unsafe impl Send for Arena {}
// SAFETY: M1: as for `Send`.
unsafe impl Sync for Arena {}

impl Arena {
    /// Its size in bytes.
    pub(crate) const BYTES: usize = 1 << 18;
    /// Addresses that [`place`](Self::place) answers have at least so many bytes after them.
    pub(crate) const SLACK: usize = 1 << 17;
    /// Bytes before and after it where nothing is mapped for anybody.
    const GUARD: usize = 1 << 20;

    /// The arena of this process, zeroed. One user at a time.
    pub(crate) fn zeroed() -> &'static Arena {
        static ARENA: OnceLock<Arena> = OnceLock::new();
        let arena = ARENA.get_or_init(Self::map);
        // SAFETY: M1: the whole mapping, whose earlier users are gone.
        unsafe { arena.start.as_ptr().write_bytes(0, Self::BYTES) };
        arena
    }

    fn map() -> Arena {
        let len = Self::BYTES + 2 * Self::GUARD;
        // SAFETY: M1: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        };
        let start = NonNull::new(start.expect("there is memory").cast::<u8>()).expect("not null");
        // SAFETY: M1: inside the mapping just made.
        let start = unsafe { start.add(Self::GUARD) };
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: M1: inside the mapping just made, which nobody uses yet.
        let opened = unsafe { rustix::mm::mprotect(start.as_ptr().cast(), Self::BYTES, access) };
        opened.expect("the pages are this process's");
        Arena { start }
    }

    /// The address of byte `at`.
    pub(crate) fn address(&self, at: usize) -> u64 {
        assert!(at <= Self::BYTES);
        self.start.as_ptr().expose_provenance() as u64 + at as u64
    }

    /// Where an address leads that anybody might have made up: addresses that a process can have
    /// lead into the arena, from `from` on, and others stay what they are.
    pub(crate) fn place(&self, address: u64, from: usize) -> u64 {
        // Below and above, the kernel itself refuses.
        if !(0x1_0000..1 << 48).contains(&address) {
            return address;
        }
        self.address(from + address as usize % (Self::BYTES - Self::SLACK - from))
    }

    /// Copies `bytes` to byte `at` and on.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= Self::BYTES);
        for (place, byte) in (at..).zip(bytes) {
            // SAFETY: M1, M2: inside the mapping; copied as memory of a device is.
            unsafe { self.start.add(place).write_volatile(*byte) };
        }
    }
}
