//! A child of `fork` has none of its parent's rings and regions, and its parent goes on as before.
//!
//! A program of its own, as other tests' threads map and unmap memory, too.

mod device;

use device::{Options, on_any_device, pair_of, sent};
use doorbell::wr;
use doorbell_hal::mmio::Uncached;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

/// The mappings that a child does not inherit ("dc" of `VmFlags`, proc(5)): where each starts, and
/// its length.
fn not_inherited() -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut mappings = Vec::new();
    let mut current = (0, 0);
    for line in maps.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let hexadecimal = |digits| usize::from_str_radix(digits, 16).ok();
        if let Some((start, end)) = range
            && let (Some(start), Some(end)) = (hexadecimal(start), hexadecimal(end))
        {
            current = (start, end - start);
        }
        if let Some(flags) = line.strip_prefix("VmFlags:")
            && flags.split_whitespace().any(|flag| flag == "dc")
        {
            mappings.push(current);
        }
    }
    mappings
}

/// Whether this process can read the byte at `address`, as the kernel sees it.
fn is_mapped(address: usize, through: i32) -> bool {
    // SAFETY: K2: the kernel answers EFAULT for an address that is not mapped.
    unsafe { libc::write(through, address as *const libc::c_void, 1) == 1 }
}

on_any_device! {
    fn a_child_has_no_rings_and_no_regions_and_its_parent_goes_on<V>(device) {
        let before: usize = not_inherited().iter().map(|mapping| mapping.1).sum();
        let options = Options { sends: 1024, receives: 1024, entries: 4095, ..Options::default() };
        let [mut a, b] = pair_of::<V, Uncached>(device, &options);
        let mappings = not_inherited();
        let bytes: usize = mappings.iter().map(|mapping| mapping.1).sum();
        // Of each end: completions, send slots, receives, a page of records, and the region.
        let least = 2 * (4096 * 64 + 1024 * 64 + 1024 * 16 + 4096 + options.memory);
        assert!(bytes - before >= least, "{} of {least} bytes", bytes - before);

        let (mut parents_end, childs_end) = std::io::pipe().unwrap();
        let (childs_word, mut parents_word) = std::io::pipe().unwrap();
        let (drain, word) = (childs_end.as_raw_fd(), childs_word.as_raw_fd());
        let known = Box::new(1u8);
        let probe = &raw const *known as usize;
        // SAFETY: the child makes async-signal-safe calls only, on what was made before.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // What any process has is mapped, or this would prove nothing.
            let mut right = is_mapped(probe, drain);
            for (start, len) in &mappings {
                right &= !is_mapped(*start, drain) && !is_mapped(start + len - 1, drain);
            }
            // Stays alive until the parent has moved its bytes: pages would be shared till then.
            let mut byte = 0u8;
            // SAFETY: K2: one byte is read into a variable of one byte.
            unsafe {
                libc::read(word, (&raw mut byte).cast(), 1);
                libc::_exit(if right { 0 } else { 1 });
            }
        }
        drop(childs_end);
        for round in 0..10 {
            let bytes = a.fill(0, 8192, round);
            a.post(wr::write(a.piece(0..8192), b.remote(0..8192)).unwrap().signaled());
            sent(&mut a.cq);
            assert_eq!(b.bytes(0..8192), bytes);
            a.post(wr::read(a.piece(8192..16384), b.remote(0..8192)).unwrap().signaled());
            sent(&mut a.cq);
            assert_eq!(a.bytes(8192..16384), bytes);
        }
        parents_word.write_all(&[1]).unwrap();
        let mut status = 0;
        // SAFETY: K2: the status is a variable of this function.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "the child died by {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 0, "the child reaches its parent's rings");
        let mut written = Vec::new();
        parents_end.read_to_end(&mut written).unwrap();
        assert_eq!(written.len(), 1);
    }
}
