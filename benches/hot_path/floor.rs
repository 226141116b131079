//! The floor: the loads and stores that an operation cannot do without, written by hand for rings
//! that never fill, with every constant at hand in the NIC's byte order.

use crate::operations::{BATCH, used};
use doorbell::mlx5::abi::U24;
use std::ptr::write_volatile;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering, compiler_fence};

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Slot([u64; 8]);

/// A ring with a record, a register and ids.
pub struct Ring {
    slots: *mut Slot,
    ids: *mut u64,
    mask: u32,
    posted: u32,
    limit: u32,
    completed: *const AtomicU16,
    record: *const AtomicU32,
    register: *mut u64,
    /// The queue pair's number, shifted and swapped.
    queue_pair: u64,
}

impl Ring {
    pub fn new(len: u32, queue_pair: U24) -> Self {
        let leak = |count: u32| vec![Slot([0; 8]); count as usize].leak().as_mut_ptr();
        // Aligned, so that the alternate half of the register is 256 bytes off whichever is used.
        let register = leak(16) as usize;
        Ring {
            slots: leak(len),
            ids: vec![0; len as usize].leak().as_mut_ptr(),
            mask: len - 1,
            posted: 0,
            limit: u32::MAX,
            completed: Box::leak(Box::new(AtomicU16::new(0))),
            record: Box::leak(Box::new(AtomicU32::new(0))),
            register: register.next_multiple_of(512) as *mut u64,
            queue_pair: u64::from((queue_pair.get() << 8).swap_bytes()) << 32,
        }
    }

    /// The next entry's first slot and id, and its doorbell.
    #[inline(always)]
    fn next(&self, segments: u64) -> Option<(usize, u64)> {
        if self.posted == self.limit {
            return None;
        }
        let opcode = ((self.posted & 0xffff) << 8 | 0x08).swap_bytes();
        let doorbell = self.queue_pair | segments << 56 | u64::from(opcode);
        Some(((self.posted & self.mask) as usize, doorbell))
    }

    #[inline(always)]
    unsafe fn publish(&self) {
        compiler_fence(Ordering::Release);
        let record = (self.posted & 0xffff).swap_bytes();
        // SAFETY: Q1: our caller's promise.
        unsafe { (*self.record).store(record, Ordering::Relaxed) };
        compiler_fence(Ordering::Release);
    }
}

#[derive(Clone, Copy)]
pub struct Write {
    pub address: u64,
    pub len: u32,
    pub lkey: u32,
    pub remote: u64,
    pub rkey: u32,
    pub id: u64,
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe fn count_floor_post_write(ring: &mut Ring, writes: &[Write; BATCH]) -> bool {
    unrolled!(I => {
        let write = &writes[I];
        let Some((index, doorbell)) = ring.next(3) else { return false };
        // SAFETY: Q1: our caller's promise.
        unsafe {
            let slot = ring.slots.add(index).cast::<u64>();
            write_volatile(slot, doorbell);
            write_volatile(slot.add(1), 0x08 << 24);
            write_volatile(slot.add(2), write.remote.swap_bytes());
            write_volatile(slot.add(3), write.rkey.swap_bytes().into());
            write_volatile(slot.add(4).cast::<u32>(), write.len.swap_bytes());
            write_volatile(slot.add(4).cast::<u32>().add(1), write.lkey.swap_bytes());
            write_volatile(slot.add(5), write.address.swap_bytes());
            write_volatile(ring.ids.add(index), write.id);
            ring.posted += 1;
            ring.publish();
            write_volatile(ring.register, doorbell);
        }
    });
    true
}

#[derive(Clone, Copy)]
pub struct InlineWrite {
    pub data: [u8; 32],
    pub remote: u64,
    pub rkey: u32,
    pub id: u64,
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe fn count_floor_post_inline(ring: &mut Ring, writes: &[InlineWrite; BATCH]) -> bool {
    unrolled!(I => {
        let write = &writes[I];
        let Some((index, doorbell)) = ring.next(5) else { return false };
        // SAFETY: Q1: our caller's promise; the entry starts at an even slot of an even number.
        unsafe {
            let slot = ring.slots.add(index).cast::<u64>();
            let data = write.data.as_ptr();
            let first = u64::from(data.cast::<u32>().read_unaligned());
            write_volatile(slot, doorbell);
            write_volatile(slot.add(1), 0x08 << 24);
            write_volatile(slot.add(2), write.remote.swap_bytes());
            write_volatile(slot.add(3), write.rkey.swap_bytes().into());
            write_volatile(slot.add(4), first << 32 | 0x2000_0080);
            for word in 0..3 {
                let at = data.add(4 + 8 * word).cast::<u64>();
                write_volatile(slot.add(5 + word), at.read_unaligned());
            }
            let last = data.add(28).cast::<u32>().read_unaligned();
            write_volatile(slot.add(8), last.into());
            write_volatile(slot.add(9), 0);
            write_volatile(ring.ids.add(index), write.id);
            ring.posted += 2;
            ring.publish();
            copy_two_slots(slot, ring.register);
            ring.register = (ring.register as usize ^ 256) as *mut u64;
        }
    });
    true
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_two_slots(from: *const u64, to: *mut u64) {
    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_sfence};
    // SAFETY: Q1: our caller's promise.
    unsafe {
        _mm_sfence();
        for quarter in 0..8 {
            let word = _mm_load_si128(from.cast::<__m128i>().add(quarter));
            write_volatile(to.cast::<__m128i>().add(quarter), word);
        }
        _mm_sfence();
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn copy_two_slots(from: *const u64, to: *mut u64) {
    for word in 0..16 {
        // SAFETY: Q1: our caller's promise.
        unsafe { write_volatile(to.add(word), from.add(word).read()) };
    }
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe fn count_floor_post_receive(ring: &mut Ring, receives: &[Write; BATCH]) -> bool {
    unrolled!(I => {
        let receive = &receives[I];
        if ring.posted == ring.limit {
            return false;
        }
        let index = (ring.posted & ring.mask) as usize;
        // SAFETY: Q1: our caller's promise; a receive's 16 bytes are a part of a slot.
        unsafe {
            let segment = ring.slots.cast::<[u64; 2]>().add(index).cast::<u64>();
            write_volatile(segment.cast::<u32>(), receive.len.swap_bytes());
            write_volatile(segment.cast::<u32>().add(1), receive.lkey.swap_bytes());
            write_volatile(segment.add(1), receive.address.swap_bytes());
            write_volatile(ring.ids.add(index), receive.id);
            ring.posted += 1;
        }
    });
    true
}

/// A completion ring that is polled in place.
pub struct Completions {
    slots: *const [u8; 64],
    mask: u32,
    consumer: u32,
    record: *const AtomicU32,
    /// Queue pairs by user index.
    table: *const *const Ring,
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe fn count_floor_poll(completions: &mut Completions) -> Option<()> {
    unrolled!(I => {
        // SAFETY: Q1: our caller's promise.
        used(unsafe { poll_one(completions) }?);
    });
    Some(())
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe fn count_floor_poll_empty(completions: &mut Completions) -> bool {
    unrolled!(I => {
        // SAFETY: Q1: our caller's promise.
        if unsafe { poll_one(completions) }.is_some() {
            return false;
        }
    });
    true
}

#[inline(always)]
unsafe fn poll_one(completions: &mut Completions) -> Option<u64> {
    let consumer = completions.consumer;
    // SAFETY: Q1: our caller's promise.
    unsafe {
        let slot = completions.slots.add((consumer & completions.mask) as usize).cast::<u8>();
        let owner = (*slot.add(63).cast::<AtomicU8>()).load(Ordering::Relaxed);
        if owner != u8::from(consumer & (completions.mask + 1) != 0) {
            return None;
        }
        compiler_fence(Ordering::Acquire);
        let user_index = slot.add(32).cast::<u32>().read().swap_bytes() & 0xff_ffff;
        let counter = slot.add(60).cast::<u16>().read().swap_bytes();
        let ring = &*completions.table.add(user_index as usize).read();
        let id = ring.ids.add((u32::from(counter) & ring.mask) as usize).read();
        (*ring.completed).store(counter, Ordering::Release);
        completions.consumer = consumer + 1;
        (*completions.record).store(completions.consumer.swap_bytes(), Ordering::Release);
        Some(id)
    }
}

/// Polls `rounds` batches, finding completions or none.
pub fn poll(rounds: u32, present: bool) {
    let len = 256u32;
    let ring = Box::leak(Box::new(Ring::new(len, U24::truncate(1))));
    let slots = vec![[0xffu8; 64]; len as usize].leak().as_mut_ptr();
    let table = vec![&raw const *ring].leak();
    let mut completions = Completions {
        slots,
        mask: len - 1,
        consumer: 0,
        record: Box::leak(Box::new(AtomicU32::new(0))),
        table: table.as_ptr(),
    };
    for round in 0..rounds {
        if !present {
            // SAFETY: Q1: all of the ring's memory is leaked, and this is its one user.
            assert!(unsafe { count_floor_poll_empty(&mut completions) });
            continue;
        }
        for entry in 0..BATCH as u32 {
            let counter = round * BATCH as u32 + entry;
            let mut slot = [0u8; 64];
            slot[60..62].copy_from_slice(&(counter as u16).to_be_bytes());
            slot[63] = u8::from(counter & len != 0);
            // SAFETY: Q1: the slots are leaked, and this is their one user.
            unsafe { write_volatile(slots.add((counter % len) as usize), slot) };
        }
        // SAFETY: Q1: all of the ring's memory is leaked, and this is its one user.
        assert!(unsafe { count_floor_poll(&mut completions) }.is_some());
    }
}
