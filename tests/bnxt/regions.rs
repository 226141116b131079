//! Regions: memory that the NIC writes and reads.

use crate::device::{Options, PATIENCE, open, pair, pair_on, pattern};
use doorbell::access::{Local, RemoteRead, RemoteReadWrite, RemoteWrite};
use doorbell::bnxt::{Nic, PeerRights};
use doorbell::completion::{Completion, Status};
use doorbell::error::Error;
use doorbell::wr::{self, RemoteSlice};
use doorbell_hal::linux::Anonymous;
use doorbell_hal::memory::{DmaMemory, copy_from_shared};
use doorbell_hal::pci::BusAddress;
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::Network;
use std::sync::Arc;

#[test]
fn a_region_owns_zeroed_bytes_and_gives_them_back_as_they_were_written() {
    let (nic, _control) = open(&Network::free());
    let region = nic.region::<Local>(10_000).unwrap();
    let mut bytes = vec![1; 10_000];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!((region.len(), &bytes), (10_000, &vec![0; 10_000]));
    let written = pattern(777, 1);
    region.write_at(333, &written).unwrap();
    let mut read = vec![0; 777];
    region.read_at(333, &mut read).unwrap();
    assert_eq!(read, written);
    for (at, len) in [(0, 10_001), (10_000, 1), (usize::MAX, 2), (9_999, 2)] {
        let error = region.write_at(at, &vec![0; len]).unwrap_err();
        assert_eq!(error.len, 10_000);
        assert!(region.read_at(at, &mut vec![0; len]).is_err());
    }
    assert!(region.slice(9_999..10_001).is_err());
    assert!(region.slice(10_000..10_000).is_ok());
}

#[test]
fn a_region_of_no_bytes_is_refused() {
    let (nic, _control) = open(&Network::free());
    let error = nic.region::<Local>(0).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { given: 0, least: 1, .. }), "{error}");
}

#[test]
fn memory_of_the_process_is_pinned_wherever_it_starts_and_ends() {
    let [mut a, b] = pair();
    let memory = Anonymous::new(64 << 10).unwrap();
    for (at, len) in [(0, 4096), (1, 1), (4095, 2), (123, 10_000), (0, 64 << 10)] {
        // SAFETY: M1, M2: inside the memory, which outlives the region and is read by raw copies.
        let region = unsafe { a.nic.region_at::<Local>(memory.as_ptr().add(at), len) }.unwrap();
        let bytes = b.fill(0, len.min(1 << 16), len as u64);
        let read = wr::read(region.slice(0..len).unwrap(), b.remote(0..len as u64)).unwrap();
        a.qp.sends().post(read.signaled()).unwrap();
        a.qp.sends().ring();
        a.sent();
        let mut read = vec![0; len];
        // SAFETY: M1, M2: as above.
        unsafe { copy_from_shared(memory.as_ptr().add(at), &mut read) };
        assert_eq!(read, bytes, "{len} bytes at {at}");
        region.deregister().unwrap();
    }
}

#[test]
fn a_devices_memory_is_read_and_written_like_any_other() {
    let owner = BusAddress::new(0, 0x41, 0, 0).unwrap();
    let memory = Arc::new(Anonymous::new(1 << 20).unwrap());
    let network = Network::free();
    let function =
        VirtualNetxtreme::builder().network(&network).device(owner, 1, memory.clone()).open();
    let nic = Nic::open(function).unwrap();
    let device = nic.device_region::<RemoteReadWrite>(owner, 1, 4096, 100_000).unwrap();
    let host = nic.region::<RemoteReadWrite>(100_000).unwrap();
    let bytes = pattern(100_000, 4);
    host.write_at(0, &bytes).unwrap();
    let mut cq = nic.completion_queue(16).unwrap();
    let (a, b) = {
        let build = || nic.queue_pair(&cq).sends(4).create().unwrap();
        (build(), build())
    };
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let rights = PeerRights::READ | PeerRights::WRITE;
    let mut a = a.connect(rights, &to_b, &Default::default()).unwrap();
    let _b = b.connect(rights, &to_a, &Default::default()).unwrap();
    let write = wr::write(host.slice(0..100_000).unwrap(), device.remote()).unwrap();
    a.sends().post(write.signaled()).unwrap();
    a.sends().ring();
    assert!(matches!(cq.wait(PATIENCE), Some(Completion::Sent(_))));
    let mut there = vec![0; 100_000];
    // SAFETY: M1, M2: inside the memory, which is read by raw copies.
    unsafe { copy_from_shared(memory.as_ptr().add(4096), &mut there) };
    assert!(there == bytes);
    for (owner, bar, offset, len) in [
        (owner, 0, 0, 4096),
        (owner, 1, 1, 4096),
        (owner, 1, 0, (1 << 20) + 1),
        (BusAddress::new(0, 0x42, 0, 0).unwrap(), 1, 0, 4096),
    ] {
        let error = nic.device_region::<Local>(owner, bar, offset, len).err().unwrap();
        assert!(error.to_string().contains("the pinning of a device's memory"), "{error}");
    }
}

/// What becomes of a write and a read of `remote`.
fn allowed(remote: impl Fn(&crate::device::VirtualNic) -> RemoteSlice) -> [bool; 2] {
    [0, 1].map(|what| {
        let [mut a, b] = pair_on(&Network::free(), &Options::default());
        let remote = remote(&b.nic).slice(0..8).unwrap();
        match what {
            0 => {
                a.qp.sends()
                    .post(wr::write(a.memory.slice(0..8).unwrap(), remote).unwrap().signaled())
            }
            _ => {
                a.qp.sends()
                    .post(wr::read(a.memory.slice(0..8).unwrap(), remote).unwrap().signaled())
            }
        }
        .unwrap();
        a.qp.sends().ring();
        match a.next() {
            Completion::Sent(_) => true,
            Completion::Failed(failed) => {
                assert_eq!(failed.status, Status::RemoteAccess, "{failed}");
                false
            }
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn peers_may_do_with_a_region_what_its_type_says() {
    // Regions that are leaked stay registered until the NIC is closed, which never is.
    macro_rules! of {
        ($access:ty) => {
            allowed(|nic| {
                let region = nic.region::<$access>(4096).unwrap();
                let remote = region.remote();
                std::mem::forget(region);
                remote
            })
        };
    }
    assert_eq!(of!(RemoteWrite), [true, false]);
    assert_eq!(of!(RemoteRead), [false, true]);
    assert_eq!(of!(RemoteReadWrite), [true, true]);
}

#[test]
fn a_region_that_is_gone_is_reached_by_nobody_and_its_memory_is_free() {
    let [mut a, b] = pair();
    let before = b.control.lent();
    let region = b.nic.region::<RemoteWrite>(1 << 20).unwrap();
    let remote = region.remote().slice(0..8).unwrap();
    assert!(b.control.lent() > before + (1 << 20));
    region.deregister().unwrap();
    assert_eq!(b.control.lent(), before);
    a.qp.sends()
        .post(wr::write(a.memory.slice(0..8).unwrap(), remote).unwrap().signaled())
        .unwrap();
    a.qp.sends().ring();
    assert_eq!(a.failed().status, Status::RemoteAccess);
}

#[test]
fn a_post_that_names_a_region_which_is_gone_fails_in_its_completion() {
    let [mut a, b] = pair();
    let region = a.nic.region::<Local>(4096).unwrap();
    let slice = region.slice(0..8).unwrap();
    drop(region);
    a.qp.sends().post(wr::write(slice, b.memory.remote()).unwrap().id(5).signaled()).unwrap();
    a.qp.sends().ring();
    let failed = a.failed();
    assert_eq!((failed.id, failed.status), (5, Status::LocalProtection));
}
