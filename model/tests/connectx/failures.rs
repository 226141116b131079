//! Failures: each refusal has its syndrome, then comes the flush, then the event.

use crate::client::*;
use crate::side::*;
use doorbell::mlx5::abi::cqe::Syndrome;
use doorbell::mlx5::abi::event::{AsyncEvent, AsyncEventType};
use doorbell::mlx5::abi::verbs::AccessFlags;
use doorbell::mlx5::abi::verbs::method;
use doorbell::mlx5::abi::verbs::qp::QpState;
use doorbell::mlx5::abi::verbs::write::RegMr;
use doorbell::mlx5::abi::wqe::{
    CompletionMode, ControlFlags, FenceMode, Opcode, RemoteAddressSegment,
};
use doorbell_hal::Errno;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::uverbs::EventFiles;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::VirtualEventFiles;
use zerocopy::{FromZeros, IntoBytes};

/// Two connected sides whose asynchronous events are watched.
struct Watched {
    network: Network,
    a: Side,
    b: Side,
    a_files: VirtualEventFiles,
    b_files: VirtualEventFiles,
}

fn watched(seed: u64) -> Watched {
    let network = Network::stepped(seed);
    let make = || {
        let client = Client::new(&network);
        let descriptors = client.event_files();
        let queue = QueueOptions { channel: Some(descriptors.0), ..QueueOptions::default() };
        let side = Side::of(client, &queue, &PairOptions::default());
        let files = side.client.take_event_files(descriptors);
        (side, files)
    };
    let ((a, a_files), (b, b_files)) = (make(), make());
    connect(&a, &b);
    Watched { network, a, b, a_files, b_files }
}

/// The asynchronous events that are there: element and kind.
fn events(files: &VirtualEventFiles) -> Vec<(u64, AsyncEventType)> {
    let mut events = Vec::new();
    let mut room = [0; 16];
    while files.read_asynchronous(&mut room) == Ok(16) {
        let event: AsyncEvent = record(&room);
        events.push((event.element, event.kind()));
    }
    events
}

/// The completion events that are there: how many.
fn completion_events(files: &VirtualEventFiles) -> usize {
    let mut room = [0; 8];
    std::iter::from_fn(|| files.read_completion(&mut room).ok()).count()
}

/// What the user handle of the client's queue pairs and completion queues is.
const PAIR: u64 = 0x9a;
const QUEUE: u64 = 0xc0;

/// Registers a part of a side's region with other rights, or in another domain.
fn region(side: &Side, domain: u32, rights: AccessFlags) -> u32 {
    let request = RegMr {
        start: side.address(0),
        length: 4096,
        hca_va: side.address(0),
        pd_handle: domain,
        access_flags: rights,
        ..RegMr::new_zeroed()
    };
    side.client.register(&request).unwrap().lkey
}

/// Chooses an address and a key of a side.
type Target = fn(&Side) -> (u64, u32);

#[test]
fn what_the_peer_refuses_is_a_remote_access_error_here_and_an_access_event_there() {
    let cases: [(&str, Target); 5] = [
        ("no such key", |b| (b.address(0), 0x1234_5678)),
        ("past the region", |b| (b.address(65536 - 7), b.key)),
        ("before the region", |b| (b.address(0) - 1, b.key)),
        ("no right", |b| {
            (b.address(0), region(b, b.domain, AccessFlags::new().with_local_write(true)))
        }),
        ("another domain", |b| (b.address(0), region(b, b.client.domain(), all_rights()))),
    ];
    for (what, target) in cases {
        let Watched { network, mut a, b, a_files, b_files } = watched(1);
        let (address, key) = target(&b);
        for _ in 0..3 {
            let entry = a.pair.write_entry(a.piece(0, 8), address, key);
            a.pair.post(&entry);
        }
        settle(&network);
        let (access, flush) = (Syndrome::RemoteAccess.code(), Syndrome::Flushed.code());
        assert_eq!(a.queue.drain(), [(access, 0), (flush, 1), (flush, 2)], "{what}");
        assert_eq!(events(&a_files), [], "{what}");
        let access_error = (PAIR, AsyncEventType::QueuePairAccessError);
        assert_eq!(events(&b_files), [access_error], "{what}");
        assert_eq!(b.client.control.counters().refused_accesses, 1, "{what}");
    }
}

#[test]
fn what_the_queue_pair_does_not_allow_its_peer_is_a_remote_invalid_request() {
    let Watched { network, mut a, b, b_files, .. } = watched(2);
    b.client.to_state(b.pair.handle, QpState::Reset).unwrap();
    b.client.to_init(b.pair.handle, AccessFlags::new()).unwrap();
    b.client.to_rtr(b.pair.handle, a.pair.number, a.client.gid()).unwrap();
    b.client.to_rts(b.pair.handle).unwrap();
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    a.pair.post(&entry);
    settle(&network);
    // The request is refused, not its key.
    assert_eq!(a.queue.drain(), [(Syndrome::RemoteInvalidRequest.code(), 0)]);
    assert_eq!(events(&b_files), [(PAIR, AsyncEventType::QueuePairRequestError)]);
}

#[test]
fn a_local_key_that_does_not_allow_it_is_a_local_protection_error() {
    let cases: [Target; 3] = [
        |a| (a.address(0), 0x999),
        |a| (a.address(65536 - 4), a.key),
        |a| (a.address(0), region(a, a.client.domain(), all_rights())),
    ];
    for target in cases {
        let Watched { network, mut a, b, a_files, b_files } = watched(3);
        let (address, key) = target(&a);
        let from = doorbell::mlx5::abi::wqe::DataSegment::new(address, key, 8);
        let entry = a.pair.write_entry(from, b.address(0), b.key);
        a.pair.post(&entry);
        settle(&network);
        assert_eq!(a.queue.drain(), [(Syndrome::LocalProtection.code(), 0)]);
        assert_eq!((events(&a_files), events(&b_files)), (vec![], vec![]));
        assert_eq!(load(&b.memory, 0, 8), [0; 8]);
    }
}

#[test]
fn a_receive_that_is_too_small_fails_on_both_sides() {
    let Watched { network, mut a, mut b, b_files, .. } = watched(4);
    b.pair.receive(&[b.piece(0, 8)]);
    b.pair.receive(&[b.piece(0, 8)]);
    let entry = a.pair.send_entry(a.piece(0, 9));
    a.pair.post(&entry);
    settle(&network);
    assert_eq!(a.queue.drain(), [(Syndrome::RemoteInvalidRequest.code(), 0)]);
    let (length, flush) = (Syndrome::LocalLength.code(), Syndrome::Flushed.code());
    assert_eq!(b.queue.drain(), [(length, 0), (flush, 1)]);
    assert_eq!(events(&b_files), [], "the completion says it");
}

#[test]
fn a_receive_into_memory_that_may_not_be_written_fails_on_both_sides() {
    let Watched { network, mut a, mut b, .. } = watched(5);
    let key = region(&b, b.domain, AccessFlags::new().with_remote_read(true));
    b.pair.receive(&[doorbell::mlx5::abi::wqe::DataSegment::new(b.address(0), key, 64)]);
    let entry = a.pair.send_entry(a.piece(0, 9));
    a.pair.post(&entry);
    settle(&network);
    assert_eq!(b.queue.drain(), [(Syndrome::LocalProtection.code(), 0)]);
    assert_eq!(a.queue.drain(), [(Syndrome::RemoteOperation.code(), 0)]);
}

#[test]
fn a_peer_without_receives_is_asked_as_often_as_said() {
    let network = Network::stepped(6);
    let [mut a, b] =
        [(); 2].map(|()| Side::new(&network, &QueueOptions::default(), &PairOptions::default()));
    for (this, peer) in [(&a, &b), (&b, &a)] {
        this.client.to_init(this.pair.handle, peer_rights()).unwrap();
        this.client.to_rtr(this.pair.handle, peer.pair.number, peer.client.gid()).unwrap();
        let mut request = rts(this.pair.handle);
        request.rnr_retry = 2;
        this.client.modify(&request).unwrap();
    }
    let entry = a.pair.send_entry(a.piece(0, 9));
    a.pair.post(&entry);
    settle(&network);
    let status = Syndrome::ReceiverNotReadyRetryExceeded.code();
    assert_eq!(a.queue.drain(), [(status, 0)]);
}

#[test]
fn a_peer_that_is_gone_is_asked_as_often_as_said() {
    let Watched { network, mut a, b, a_files, .. } = watched(7);
    assert!(network.isolate(b.client.control.nic(), true));
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    a.pair.post(&entry);
    settle(&network);
    assert_eq!(a.queue.drain(), [(Syndrome::TransportRetryExceeded.code(), 0)]);
    assert_eq!(events(&a_files), []);
    // 4.096 us << 14, eight times.
    assert!(network.now() > 8 * 60_000_000, "{}", network.now());
}

#[test]
fn a_queue_pair_moved_to_error_flushes_both_rings_and_raises_no_event() {
    let Watched { network, mut a, mut b, a_files, .. } = watched(8);
    for _ in 0..3 {
        a.pair.receive(&[a.piece(0, 8)]);
    }
    // Posted, with nobody to take it: the peer has no receive.
    let entry = a.pair.send_entry(a.piece(0, 8));
    a.pair.post(&entry);
    for _ in 0..50 {
        network.step();
    }
    a.client.to_state(a.pair.handle, QpState::Error).unwrap();
    let flush = Syndrome::Flushed.code();
    let mut drained = a.queue.drain();
    drained.sort();
    assert_eq!(drained, [(flush, 0), (flush, 0), (flush, 1), (flush, 2)]);
    // What is posted later is flushed, too: sends by their doorbell, receives without one.
    let entry = a.pair.send_entry(a.piece(0, 8));
    a.pair.post(&entry);
    a.pair.receive(&[a.piece(0, 8)]);
    settle(&network);
    let mut drained = a.queue.drain();
    drained.sort();
    assert_eq!(drained, [(flush, 1), (flush, 3)]);
    assert_eq!(events(&a_files), []);
    assert!(b.queue.poll().is_none());
}

#[test]
fn unsignaled_entries_complete_when_they_fail() {
    let Watched { network, mut a, b, .. } = watched(9);
    for mode in [CompletionMode::OnError, CompletionMode::OnFirstError, CompletionMode::OnError] {
        let flags = ControlFlags::of(mode, false, FenceMode::None);
        let mut entry = a.pair.control_with(Opcode::Write, 3, flags, 0).as_bytes().to_vec();
        entry.extend_from_slice(RemoteAddressSegment::new(b.address(0), 0xbad).as_bytes());
        entry.extend_from_slice(a.piece(0, 8).as_bytes());
        a.pair.post(&entry);
    }
    settle(&network);
    let (access, flush) = (Syndrome::RemoteAccess.code(), Syndrome::Flushed.code());
    assert_eq!(a.queue.drain(), [(access, 0), (flush, 2)], "the second asks for the first error");
}

#[test]
fn an_overrun_completion_queue_fails_with_an_event_and_takes_its_queue_pair_along() {
    let network = Network::stepped(10);
    let client = Client::new(&network);
    let descriptors = client.event_files();
    let small = QueueOptions { entries: 3, ..QueueOptions::default() };
    let mut a = Side::of(client, &small, &PairOptions::default());
    let b = Side::new(&network, &QueueOptions::default(), &PairOptions::default());
    let files = a.client.take_event_files(descriptors);
    connect(&a, &b);
    for _ in 0..6 {
        let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
        a.pair.post(&entry);
    }
    settle(&network);
    let happened = events(&files);
    let expected =
        [(QUEUE, AsyncEventType::CompletionQueueError), (PAIR, AsyncEventType::QueuePairFatal)];
    assert_eq!(happened, expected);
    assert_eq!(a.client.control.counters().overruns, 1);
    assert_eq!(a.queue.drain(), [(0, 0), (0, 1), (0, 2), (0, 3)], "four entries fit");
    assert_eq!(a.client.destroy_queue(a.queue.handle), Err(Errno::EBUSY));
    a.client.destroy_pair(a.pair.handle).unwrap();
    assert_eq!(a.client.destroy_queue(a.queue.handle).unwrap().async_events_reported, 1);
}

#[test]
fn a_completion_queue_that_is_consumed_is_never_overrun() {
    let network = Network::stepped(11);
    let small = QueueOptions { entries: 1, ..QueueOptions::default() };
    let [mut a, b] = [(); 2].map(|()| Side::new(&network, &small, &PairOptions::default()));
    connect(&a, &b);
    for round in 0..50 {
        for _ in 0..2 {
            let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
            a.pair.post(&entry);
        }
        settle(&network);
        assert_eq!(a.queue.drain().len(), 2, "round {round}");
    }
}

#[test]
fn deregistered_memory_is_not_touched_again() {
    let Watched { network, mut a, b, .. } = watched(12);
    let entry = a.pair.write_entry(a.piece(0, 60000), b.address(0), b.key);
    a.pair.post(&entry);
    for _ in 0..20 {
        network.step();
    }
    // Handle 2 of `b` is its region (0 the domain, 1 the page).
    let handles = b.client.control.objects();
    assert_eq!(handles.regions, 1);
    let region =
        (0..10).find(|&handle| b.client.destroy(method::mr::DESTROY, 0, handle, &mut []).is_ok());
    assert!(region.is_some());
    let before = load(&b.memory, 0, b.memory.len());
    settle(&network);
    assert_eq!(load(&b.memory, 0, b.memory.len()), before);
    assert_eq!(a.queue.drain(), [(Syndrome::RemoteAccess.code(), 0)]);
}

#[test]
fn an_armed_queue_raises_one_event_per_arm() {
    let Watched { network, mut a, b, a_files, .. } = watched(13);
    let post = |a: &mut Side| {
        let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
        a.pair.post(&entry);
        settle(&network);
    };
    post(&mut a);
    assert_eq!(completion_events(&a_files), 0, "nothing is armed");
    // Armed behind a completion that is there: at once.
    a.queue.arm(false, 0);
    settle(&network);
    assert_eq!(completion_events(&a_files), 1);
    a.queue.drain();
    // Twice the same arm: one event.
    a.queue.arm(false, 1);
    a.queue.arm(false, 1);
    settle(&network);
    assert_eq!(completion_events(&a_files), 0);
    post(&mut a);
    post(&mut a);
    assert_eq!(completion_events(&a_files), 1);
    a.queue.drain();
    // The event was not seen: the arm is the same again, and raises nothing.
    a.queue.arm(false, 1);
    post(&mut a);
    assert_eq!(completion_events(&a_files), 0);
    assert_eq!(a.client.control.counters().arm_doorbells, 4);
    a.client.destroy_pair(a.pair.handle).unwrap();
    assert_eq!(a.client.destroy_queue(a.queue.handle).unwrap().comp_events_reported, 2);
}

#[test]
fn a_solicited_arm_waits_for_a_solicited_completion_or_an_error() {
    let Watched { network, mut a, mut b, b_files, .. } = watched(14);
    let send = |a: &mut Side, b: &mut Side, solicited| {
        b.pair.receive(&[b.piece(0, 8)]);
        let flags = ControlFlags::of(CompletionMode::OnError, solicited, FenceMode::None);
        let mut entry = a.pair.control_with(Opcode::Send, 2, flags, 0).as_bytes().to_vec();
        entry.extend_from_slice(a.piece(0, 8).as_bytes());
        a.pair.post(&entry);
        settle(&network);
    };
    b.queue.arm(true, 0);
    settle(&network);
    send(&mut a, &mut b, false);
    assert_eq!(completion_events(&b_files), 0);
    send(&mut a, &mut b, true);
    assert_eq!(completion_events(&b_files), 1);
    b.queue.drain();
    b.queue.arm(true, 1);
    settle(&network);
    b.pair.receive(&[b.piece(0, 8)]);
    b.client.to_state(b.pair.handle, QpState::Error).unwrap();
    assert_eq!(completion_events(&b_files), 1, "a flushed receive is an error");
}

#[test]
fn unread_events_of_a_destroyed_queue_vanish() {
    // `ib_uverbs_release_ucq`.
    let Watched { network, mut a, b, a_files, .. } = watched(15);
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    a.pair.post(&entry);
    a.queue.arm(false, 0);
    settle(&network);
    a.client.destroy_pair(a.pair.handle).unwrap();
    assert_eq!(a.client.destroy_queue(a.queue.handle).unwrap().comp_events_reported, 0);
    assert_eq!(completion_events(&a_files), 0);
}

#[test]
fn messages_and_entries_beyond_the_nics_bounds_are_refused_by_it() {
    use doorbell_model::connectx::Capabilities;
    let network = Network::stepped(16);
    let capabilities =
        Capabilities { log_max_message: 12, max_send_entry: 128, ..Capabilities::default() };
    let make = || {
        let builder = doorbell_model::VirtualConnectx::builder().network(&network);
        let client = Client::of(builder.capabilities(capabilities).open());
        client.get_context(&dynamic_context()).unwrap();
        Side::of(client, &QueueOptions::default(), &PairOptions::default())
    };
    let long = |a: &Side, b: &Side| a.pair.write_entry(a.piece(0, 4097), b.address(0), b.key);
    let wide = |a: &Side, b: &Side| {
        let mut entry = a.pair.control(Opcode::Write, 9).as_bytes().to_vec();
        entry.extend_from_slice(RemoteAddressSegment::new(b.address(0), b.key).as_bytes());
        for at in 0..7 {
            entry.extend_from_slice(a.piece(at * 8, 8).as_bytes());
        }
        entry
    };
    type Entry<'a> = &'a dyn Fn(&Side, &Side) -> Vec<u8>;
    let cases: [(Entry<'_>, Syndrome); 2] =
        [(&long, Syndrome::LocalLength), (&wide, Syndrome::LocalQueuePairOperation)];
    for (entry, syndrome) in cases {
        let (mut a, b) = (make(), make());
        connect(&a, &b);
        let entry = entry(&a, &b);
        a.pair.post(&entry);
        settle(&network);
        assert_eq!(a.queue.drain(), [(syndrome.code(), 0)]);
    }
}

#[test]
fn a_send_with_invalidate_takes_a_key_only_where_regions_can_be_invalidated() {
    for allowed in [false, true] {
        let network = Network::stepped(17);
        let make = || {
            let mut builder = doorbell_model::VirtualConnectx::builder().network(&network);
            if allowed {
                builder = builder.remote_invalidate();
            }
            let client = Client::of(builder.open());
            client.get_context(&dynamic_context()).unwrap();
            Side::of(client, &QueueOptions::default(), &PairOptions::default())
        };
        let (mut a, mut b) = (make(), make());
        connect(&a, &b);
        b.pair.receive(&[]);
        let flags = ControlFlags::of(CompletionMode::Always, false, FenceMode::None);
        let control = a.pair.control_with(Opcode::SendInvalidate, 1, flags, b.key);
        a.pair.post(control.as_bytes());
        settle(&network);
        let here = a.queue.drain();
        let there = b.queue.poll().unwrap();
        if allowed {
            assert_eq!(here, [(0, 0)]);
            assert_eq!(there.op_own.opcode(), 4, "MLX5_CQE_RESP_SEND_INV");
            assert_eq!(there.imm_inval_pkey.get(), b.key);
            let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
            a.pair.post(&entry);
            settle(&network);
            assert_eq!(a.queue.drain(), [(Syndrome::RemoteAccess.code(), 1)]);
        } else {
            assert_eq!(here.len(), 1);
            assert_ne!(here[0].0, 0);
            assert_eq!(there.op_own.opcode(), 14);
        }
    }
}
