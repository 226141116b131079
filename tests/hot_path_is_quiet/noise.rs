//! What a thread does besides: allocations and system calls.
//!
//! Allocations are counted by the program's allocator. System calls are counted by syscall user
//! dispatch (`Documentation/admin-guide/syscall-user-dispatch.rst`): while a byte of this thread says
//! so, the kernel raises SIGSYS instead of a system call.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// What a section did besides its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noise {
    pub allocations: u64,
    pub system_calls: u64,
    /// The number of the last system call.
    pub last: i64,
}

impl Noise {
    pub const NONE: Noise = Noise { allocations: 0, system_calls: 0, last: 0 };
}

thread_local! {
    static LISTENING: Cell<bool> = const { Cell::new(false) };
    static HEARD: Cell<Noise> = const { Cell::new(Noise::NONE) };
}

fn hear(change: impl FnOnce(&mut Noise)) {
    if LISTENING.get() {
        let mut noise = HEARD.get();
        change(&mut noise);
        HEARD.set(noise);
    }
}

/// The system's allocator, listened to.
pub struct Listener;

// SAFETY: M1: passed on to the system's allocator, each call as it came.
unsafe impl GlobalAlloc for Listener {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        hear(|noise| noise.allocations += 1);
        // SAFETY: M1: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        hear(|noise| noise.allocations += 1);
        // SAFETY: M1: passed on.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        hear(|noise| noise.allocations += 1);
        // SAFETY: M1: passed on.
        unsafe { System.realloc(start, layout, size) }
    }
}

/// Runs `section`, and answers what this thread did besides.
pub fn noise_of<R>(section: impl FnOnce() -> R) -> (R, Noise) {
    let calls = calls::Trap::set();
    HEARD.set(Noise::NONE);
    LISTENING.set(true);
    calls.close();
    let result = section();
    calls.open();
    LISTENING.set(false);
    (result, HEARD.get())
}

#[cfg(target_arch = "x86_64")]
mod calls {
    use super::hear;
    use std::cell::Cell;
    use std::sync::Once;

    /// `linux/prctl.h`.
    const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
    const PR_SYS_DISPATCH_OFF: libc::c_ulong = 0;
    const PR_SYS_DISPATCH_ON: libc::c_ulong = 1;
    const SYSCALL_DISPATCH_FILTER_ALLOW: u8 = 0;
    const SYSCALL_DISPATCH_FILTER_BLOCK: u8 = 1;

    thread_local! {
        /// The byte that the kernel looks at before each system call of this thread.
        static SELECTOR: Cell<u8> = const { Cell::new(SYSCALL_DISPATCH_FILTER_ALLOW) };
    }

    /// System calls of this thread are trapped, while the trap is closed.
    pub struct Trap(());

    impl Trap {
        pub fn set() -> Trap {
            static HANDLER: Once = Once::new();
            HANDLER.call_once(|| {
                // SAFETY: K2: a zeroed `sigaction` is a valid one.
                let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                // SAFETY: K2: the handler has the form that SA_SIGINFO asks for.
                let set = unsafe { libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) };
                assert_eq!(set, 0);
            });
            let selector = SELECTOR.with(Cell::as_ptr);
            assert_eq!(dispatch(PR_SYS_DISPATCH_ON, selector), 0, "Linux 5.11 is needed");
            Trap(())
        }

        pub fn close(&self) {
            SELECTOR.set(SYSCALL_DISPATCH_FILTER_BLOCK);
        }

        pub fn open(&self) {
            SELECTOR.set(SYSCALL_DISPATCH_FILTER_ALLOW);
        }
    }

    impl Drop for Trap {
        fn drop(&mut self) {
            self.open();
            dispatch(PR_SYS_DISPATCH_OFF, std::ptr::null_mut());
        }
    }

    fn dispatch(mode: libc::c_ulong, selector: *mut u8) -> libc::c_int {
        let none: libc::c_ulong = 0;
        // SAFETY: K2: the selector is this thread's, and is taken back before the thread ends.
        unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, none, none, selector) }
    }

    /// Counts the call that was not made, and lets the section go on without it.
    extern "C" fn handler(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // Returning from here is a system call, too. The section goes on unheard after its first.
        SELECTOR.set(SYSCALL_DISPATCH_FILTER_ALLOW);
        // SAFETY: K2: the kernel fills both in. `si_syscall` follows 16 bytes and an address.
        unsafe {
            let number = info.cast::<libc::c_int>().byte_add(24).read();
            hear(|noise| {
                noise.system_calls += 1;
                noise.last = number.into();
            });
            let context = &mut *context.cast::<libc::ucontext_t>();
            context.uc_mcontext.gregs[libc::REG_RAX as usize] = -i64::from(libc::EAGAIN);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod calls {
    /// This kernel cannot trap system calls of a thread: allocations are all that is heard.
    pub struct Trap(());

    impl Trap {
        pub fn set() -> Trap {
            Trap(())
        }

        pub fn close(&self) {}

        pub fn open(&self) {}
    }
}
