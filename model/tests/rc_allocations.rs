//! Once a connection is warm, its packets cost no allocation.

mod rig;

use doorbell_model::fabric::{Address, Fabric, Loopback};
use doorbell_model::memory::{Access, Buffer, Entry, List, Pages};
use doorbell_model::rc::{Data, Operation, Request};
use rig::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts this thread's allocations.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: test scaffolding, beside SAFETY.md's invariants: every call goes on to the system's
// allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: our caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: our caller keeps the allocator's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Each kind of request and an answer to each, over a loopback.
fn round(ends: &mut [End; 2], fabric: &mut Loopback, requests: &[Request]) {
    for request in requests {
        ends[0].device.post_request(request.clone());
    }
    for _ in 0..4 {
        let list = ends[1].device.list(0x8000, 0x2000);
        ends[1].device.post_receive(list);
    }
    let ports = [doorbell_model::fabric::Port(0), doorbell_model::fabric::Port(1)];
    loop {
        let mut busy = false;
        for at in 0..2 {
            let end = &mut ends[at];
            while let Some(arrival) = fabric.receive(0, ports[at]) {
                end.connection.receive(0, &arrival.packet, &mut end.device);
            }
            end.advance(0);
            let address = |at: usize| Address::Lid(at as u16);
            while let Some(packet) = end.device.out.pop_front() {
                fabric.send(0, ports[at], address(at), address(1 - at), packet);
                busy = true;
            }
        }
        if !busy {
            break;
        }
    }
    assert_eq!(ends[0].device.sent.len(), requests.len());
    assert_eq!(ends[1].device.received.len(), 4);
    for end in ends {
        end.device.sent.clear();
        end.device.received.clear();
    }
}

#[test]
fn a_warm_connection_allocates_nothing() {
    let (mut a, b) = Setup { first_psn: 0, ..Setup::default() }.pair();
    let mut fabric = Loopback::new();
    for at in 0..2 {
        let port = fabric.attach();
        fabric.bind(port, Address::Lid(at));
    }
    let (remote, list, word) =
        (b.device.remote(0), a.device.list(0x100, 3000), a.device.list(0, 8));
    // More pieces than a payload refers to: they are copied.
    let mut region = registration(0, 16 * 16, Access::ALL);
    let addresses = (0..16).map(|at| BASE + at * 32).collect();
    region.pages = Pages::List { log_size: 4, addresses };
    let lkey = a.device.memory.keys.insert(region, None).unwrap();
    let pieces = List::from_iter([Entry { address: 0, length: 256, lkey }]);
    let mut requests = vec![
        request(Operation::Write(remote), list.clone()),
        request(Operation::WriteImmediate(remote, 1), list.clone()),
        request(Operation::Send, list.clone()),
        request(Operation::SendImmediate(5), pieces),
        request(Operation::Read(remote), list),
        request(Operation::FetchAdd { remote, add: 1 }, word.clone()),
        request(Operation::CompareSwap { remote, compare: 1, swap: 1 }, word),
        request(Operation::Send, List::new()),
    ];
    requests[2].data = Data::Inline(Buffer::copy_of(&[7; 900]));
    let mut ends = [a, b];
    for _ in 0..3 {
        round(&mut ends, &mut fabric, &requests);
    }
    let before = COUNT.get();
    for _ in 0..10 {
        round(&mut ends, &mut fabric, &requests);
    }
    assert_eq!(COUNT.get() - before, 0);
}
