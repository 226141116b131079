//! Regions: whose memory, how much of it, and for whom.

use crate::device::{Device, End, Verbs, failed, on_any_device, pair, pattern, received, sent};
use doorbell::completion::Status;
use doorbell::error::Error;
use doorbell::mlx5::access::{Local, RemoteAtomic, RemoteRead, RemoteReadWrite, RemoteWrite};
use doorbell::mlx5::{Order, Region};
use doorbell::wr::{self, Inline, OutOfBounds};
use doorbell_hal::linux::{Anonymous, HugePage};
use doorbell_hal::memory::DmaMemory;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::ptr::NonNull;

/// What becomes of a write, a read and an atomic by a peer of a region with access `A`.
fn attempts<V: Verbs, A: doorbell::mlx5::access::Remote>(device: &Device<V>) -> [bool; 3] {
    [0, 1, 2].map(|what| {
        let [mut a, b] = pair(device);
        let target: Region<A, V> = b.nic.region(4096, Order::InOrder).unwrap();
        let remote = target.remote().slice(0..8).unwrap();
        let piece = a.piece(0..8);
        match what {
            0 => a.post(wr::write(piece, remote).unwrap().signaled()),
            1 => a.post(wr::read(piece, remote).unwrap().signaled()),
            _ => a.post(wr::fetch_add(piece, remote, 1).unwrap().signaled()),
        }
        match crate::device::next(&mut a.cq) {
            doorbell::completion::Completion::Sent(_) => true,
            doorbell::completion::Completion::Failed(failed) => {
                assert_eq!(failed.status, Status::RemoteAccess);
                false
            }
            other => panic!("{other:?}"),
        }
    })
}

/// Writes bytes from `a` into a region of `b`'s NIC, and reads them back into `a`.
fn there_and_back<V: Verbs>(a: &mut End<V>, remote: wr::RemoteSlice, seed: u64) -> Vec<u8> {
    let len = remote.len() as usize;
    let bytes = a.fill(0, len, seed);
    a.post(wr::write(a.piece(0..len), remote).unwrap().signaled());
    sent(&mut a.cq);
    a.memory.write_at(0, &vec![0; len]).unwrap();
    a.post(wr::read(a.piece(0..len), remote).unwrap().signaled());
    sent(&mut a.cq);
    assert_eq!(a.bytes(0..len), bytes);
    bytes
}

on_any_device! {
    fn peers_may_do_with_a_region_what_its_type_says<V>(device) {
        assert_eq!(attempts::<V, RemoteWrite>(device), [true, false, false]);
        assert_eq!(attempts::<V, RemoteRead>(device), [false, true, false]);
        assert_eq!(attempts::<V, RemoteReadWrite>(device), [true, true, false]);
        assert_eq!(attempts::<V, RemoteAtomic>(device), [true, true, true]);
    }

    fn a_local_region_is_sent_from_and_received_into_and_read_into<V>(device) {
        let [mut a, mut b] = pair(device);
        let (here, there) = (
            a.nic.region::<Local>(100, Order::InOrder).unwrap(),
            b.nic.region::<Local>(100, Order::Relaxed).unwrap(),
        );
        here.write_at(0, &pattern(100, 1)).unwrap();
        b.qp.receives().post(wr::receive(there.slice(0..100).unwrap()).id(1)).unwrap();
        b.qp.receives().ring();
        a.post(wr::send(here.slice(0..100).unwrap()).signaled());
        sent(&mut a.cq);
        assert_eq!(received(&mut b.cq).len, 100);
        let mut bytes = [0; 100];
        there.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[..], pattern(100, 1));
        b.fill(0, 100, 2);
        a.post(wr::read(here.slice(0..100).unwrap(), b.remote(0..100)).unwrap().signaled());
        sent(&mut a.cq);
        here.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[..], pattern(100, 2));
    }

    fn a_region_owns_zeroed_bytes_and_gives_them_back_as_they_were_written<V>(device) {
        let nic = device.nic(0);
        for len in [1, 7, 4095, 4096, 4097, 100_000] {
            let region: Region<Local, V> = nic.region(len, Order::InOrder).unwrap();
            assert_eq!(region.len(), len);
            let mut bytes = vec![1; len];
            region.read_at(0, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0));
            region.write_at(len - 1, &[9]).unwrap();
            region.read_at(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(9));
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
    }

    fn what_leaves_a_region_is_refused_with_the_bounds<V>(device) {
        let nic = device.nic(0);
        let region: Region<RemoteRead, V> = nic.region(100, Order::InOrder).unwrap();
        let out = |start, end| OutOfBounds { start, end, len: 100 };
        assert_eq!(region.slice(0..101), Err(out(0, 101)));
        assert_eq!(region.slice(101..101), Err(out(101, 101)));
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = 50..40;
        assert_eq!(region.slice(reversed), Err(out(50, 40)));
        assert_eq!(region.slice(0..usize::MAX).unwrap_err().end, u64::MAX);
        assert_eq!(region.slice(100..100).unwrap().len(), 0);
        assert_eq!(region.slice(1..100).unwrap().len(), 99);
        assert_eq!(region.read_at(99, &mut [0; 2]), Err(out(99, 101)));
        assert_eq!(region.write_at(101, &[]), Err(out(101, 101)));
        assert_eq!(region.write_at(usize::MAX, &[1]).unwrap_err().end, u64::MAX);
        region.write_at(100, &[]).unwrap();

        let piece = region.slice(10..30).unwrap();
        assert_eq!(piece.slice(5..21), Err(OutOfBounds { start: 5, end: 21, len: 20 }));
        let inner = piece.slice(5..20).unwrap();
        assert_eq!(inner.address(), region.as_ptr().as_ptr() as u64 + 15);
        assert_eq!((inner.len(), inner.lkey()), (15, piece.lkey()));

        let remote = region.remote();
        assert_eq!((remote.len(), remote.slice(0..101)), (100, Err(out(0, 101))));
        let inner = remote.slice(40..100).unwrap();
        assert_eq!((inner.address(), inner.len()), (remote.address() + 40, 60));
        assert_eq!(inner.slice(0..61), Err(OutOfBounds { start: 0, end: 61, len: 60 }));
        assert_eq!(wr::RemoteSlice::from_bytes(inner.to_bytes()), inner);
    }

    fn a_region_of_no_bytes_or_more_than_its_memory_is_refused<V>(device) {
        let nic = device.nic(0);
        let refused = nic.region::<Local>(0, Order::InOrder).unwrap_err();
        assert!(matches!(refused, Error::OutOfRange { given: 0, least: 1, .. }), "{refused}");
        let memory = nic.verbs().allocate(4096).unwrap();
        let most = memory.len();
        let refused = nic.region_of::<Local>(memory, most + 1, Order::InOrder).unwrap_err();
        assert!(refused.to_string().contains(&format!("from 1 to {most}")), "{refused}");
    }

    fn memory_that_an_engine_hands_over_is_the_regions<V>(device) {
        let [mut a, b] = pair(device);
        let memory = b.nic.verbs().allocate(8192).unwrap();
        let start = memory.as_ptr();
        let region: Region<RemoteReadWrite, V> =
            b.nic.region_of(memory, 5000, Order::InOrder).unwrap();
        assert_eq!((region.as_ptr(), region.len()), (start, 5000));
        let bytes = there_and_back(&mut a, region.remote(), 3);
        let mut there = vec![0; 5000];
        region.read_at(0, &mut there).unwrap();
        assert_eq!(there, bytes);
    }

    fn a_region_may_start_and_end_anywhere<V>(device) {
        let [mut a, b] = pair(device);
        let memory = Anonymous::new(16384).unwrap();
        for (offset, len) in [(1, 1), (3, 4096), (4095, 2), (4093, 5000), (16383, 1)] {
            // SAFETY: M1: inside the mapping.
            let start = unsafe { memory.as_ptr().add(offset) };
            // SAFETY: M1, M2: `memory` outlives the region, and is reached by raw pointers only.
            let region: Region<RemoteReadWrite, V> =
                unsafe { b.nic.region_at(start, len, Order::InOrder) }.unwrap();
            let bytes = there_and_back(&mut a, region.remote(), offset as u64);
            for (at, byte) in bytes.iter().enumerate() {
                // SAFETY: M1: inside the mapping.
                assert_eq!(unsafe { start.add(at).read_volatile() }, *byte);
            }
            // The bytes around it are not the region's.
            if offset > 1 {
                // SAFETY: M1: inside the mapping.
                assert_eq!(unsafe { start.sub(2).read_volatile() }, 0);
            }
            region.deregister().unwrap();
            // SAFETY: M1: inside the mapping.
            unsafe { start.write_bytes(0, len) };
        }
    }

    fn memory_of_huge_pages_is_registered_where_the_machine_has_some<V>(device) {
        let Ok(memory) = Anonymous::huge(HugePage::Mib2.bytes(), HugePage::Mib2) else {
            eprintln!("skipped: there are no huge pages (/proc/sys/vm/nr_hugepages)");
            return;
        };
        let [mut a, b] = pair(device);
        // SAFETY: M1, M2: `memory` outlives the region, and is reached by nothing else.
        let region: Region<RemoteReadWrite, V> =
            unsafe { b.nic.region_at(memory.as_ptr(), memory.len(), Order::InOrder) }.unwrap();
        let last = region.len() as u64;
        there_and_back(&mut a, region.remote().slice(last - 60_000..last).unwrap(), 1);
    }

    fn bytes_past_4_gib_of_a_region_are_reached<V>(device) {
        const GIB: usize = 1 << 30;
        // A real NIC's kernel pins what is registered, and few machines can spare 6 GiB.
        let sparse = match crate::device::named() {
            None => Ok(Sparse::new(6 * GIB)),
            Some(_) => Sparse::repeated(6 * GIB),
        };
        let Ok(sparse) = sparse else {
            eprintln!("skipped: there are no huge pages (/proc/sys/vm/nr_hugepages)");
            return;
        };
        let [mut a, b] = pair(device);
        // SAFETY: M1, M2: `sparse` outlives the region, and is reached by nothing else.
        let region: Region<RemoteReadWrite, V> =
            unsafe { b.nic.region_at(sparse.start, sparse.len, Order::InOrder) }.unwrap();
        let remote = region.remote();
        assert_eq!(remote.len(), 6 << 30);
        let four = 4 << 30;
        for at in [0, four - 4096, four - 1, four, four + 1, (6 << 30) - 5000] {
            let bytes = there_and_back(&mut a, remote.slice(at..at + 5000).unwrap(), at);
            let mut there = vec![0; 5000];
            region.read_at(at as usize, &mut there).unwrap();
            assert_eq!(there, bytes, "at {at:#x}");
        }
        // As this side names them, too.
        let here = region.slice(5 * GIB..5 * GIB + 64).unwrap();
        region.write_at(5 * GIB, &pattern(64, 5)).unwrap();
        let options = crate::device::Options::default();
        let mut cq = b.nic.completion_queue(8).unwrap();
        let qp = b.nic.queue_pair(&cq).sends(4).create().unwrap();
        let to_itself = qp.endpoint();
        let mut qp = qp.connect(options.rights, &to_itself, &options.connection).unwrap();
        qp.sends().post(wr::write(here, b.remote(0..64)).unwrap().signaled()).unwrap();
        qp.sends().ring();
        sent(&mut cq);
        assert_eq!(b.bytes(0..64), pattern(64, 5));
        // More than a message carries is no slice.
        assert!(region.slice(0..6 * GIB).is_err());
    }

    fn a_region_in_order_shows_the_last_byte_last<V>(device) {
        let [mut a, b] = pair(device);
        // A message of several packets, whose last byte a poller of memory waits for.
        let len = 20_000;
        for round in 1..50u8 {
            a.memory.write_at(0, &vec![round; len]).unwrap();
            a.post(wr::write(a.piece(0..len), b.remote(0..len as u64)).unwrap().signaled());
            crate::device::until(|| b.bytes(len - 1..len) == [round]);
            assert!(b.bytes(0..len).iter().all(|byte| *byte == round), "round {round}");
            sent(&mut a.cq);
        }
    }

    fn a_deregistered_region_is_refused_by_the_nics_of_both_sides<V>(device) {
        // The peer's: its key is unknown.
        let [mut a, b] = pair(device);
        let region: Region<RemoteWrite, V> = b.nic.region(64, Order::InOrder).unwrap();
        let remote = region.remote();
        region.deregister().unwrap();
        a.post(wr::write(a.piece(0..8), remote).unwrap().id(1));
        assert_eq!(failed(&mut a.cq).status, Status::RemoteAccess);
        // This side's.
        let [mut a, b] = pair(device);
        let region: Region<Local, V> = a.nic.region(64, Order::InOrder).unwrap();
        let piece = region.slice(0..64).unwrap();
        drop(region);
        a.post(wr::write(piece, b.remote(0..64)).unwrap().id(1));
        assert_eq!(failed(&mut a.cq).status, Status::LocalProtection);
        assert_eq!(b.bytes(0..64), [0; 64]);
    }

    fn a_region_of_one_nic_is_no_region_of_another<V>(device) {
        let [mut a, b] = pair(device);
        // Keys of `b` mean nothing to `a`, or mean memory of another protection domain.
        let foreign = b.piece(0..8);
        a.post(wr::write(foreign, b.remote(8..16)).unwrap().id(1));
        let status = failed(&mut a.cq).status;
        assert_eq!(status, Status::LocalProtection);
        assert_eq!(b.bytes(8..16), [0; 8]);
    }

    fn many_regions_have_keys_of_their_own<V>(device) {
        let [mut a, b] = pair(device);
        let regions: Vec<Region<RemoteReadWrite, V>> =
            (0..100).map(|_| b.nic.region(64, Order::InOrder).unwrap()).collect();
        for (k, region) in regions.iter().enumerate() {
            let bytes = Inline([k as u8; 8]);
            a.qp.sends().post(wr::write(bytes, region.remote()).unwrap()).unwrap();
        }
        a.post(wr::write(wr::Nothing, b.remote(0..0)).unwrap().signaled());
        sent(&mut a.cq);
        for (k, region) in regions.iter().enumerate() {
            let mut bytes = [0; 8];
            region.read_at(0, &mut bytes).unwrap();
            assert_eq!(bytes, [k as u8; 8]);
        }
    }
}

/// Addresses whose memory is there once it is touched.
struct Sparse {
    start: NonNull<u8>,
    len: usize,
    /// What is mapped, some of it before or after.
    mapped: (NonNull<u8>, usize),
}

impl Sparse {
    fn new(len: usize) -> Self {
        use rustix::mm::{MapFlags, ProtFlags};
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: M1: a new mapping at an address that the kernel chooses.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, protection, flags) };
        let start = NonNull::new(start.unwrap().cast()).unwrap();
        Sparse { start, len, mapped: (start, len) }
    }

    /// Addresses that all lead to the same three huge pages, again and again. Three, so that two
    /// addresses which are 4 GiB apart lead to different bytes.
    fn repeated(len: usize) -> rustix::io::Result<Sparse> {
        use rustix::mm::{MapFlags, ProtFlags};
        const PAGES: usize = 3 * HugePage::Mib2.bytes();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let file = memfd_create("repeated", flags)?;
        ftruncate(&file, PAGES as u64)?;
        // Room in which a huge page's boundary is found.
        let mut sparse = Sparse::new(len + HugePage::Mib2.bytes());
        let skipped = sparse.start.as_ptr().align_offset(HugePage::Mib2.bytes());
        // SAFETY: M1: inside the mapping that was just made.
        sparse.start = unsafe { sparse.start.add(skipped) };
        sparse.len = len;
        for at in (0..len).step_by(PAGES) {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: M1: inside the mapping that was just made, and that nothing uses yet.
            unsafe {
                let place = sparse.start.as_ptr().add(at);
                rustix::mm::mmap(place.cast(), PAGES.min(len - at), protection, flags, &file, 0)?;
            }
        }
        Ok(sparse)
    }
}

impl Drop for Sparse {
    fn drop(&mut self) {
        let (start, len) = self.mapped;
        // SAFETY: M1: the mapping is this value's own, and its region is gone.
        unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) }.unwrap();
    }
}
