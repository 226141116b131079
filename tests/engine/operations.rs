//! Every operation, with every flag: what it moves, what it completes, and what it leaves alone.

use crate::device::{End, Options, Verbs, on_any_device, pair, pair_of, received, sent};
use doorbell::completion::Arrival;
use doorbell::mlx5::Nic;
use doorbell::wr::{self, Inline, Nothing, SizeError};

/// Posts a request once with each combination of flags, in one batch. `$k` counts them; the odd ones
/// are signaled, and the id is the count.
macro_rules! post_with_every_flag {
    ($end:ident, $k:ident => $request:expr) => {
        post_with_every_flag!(@each $end, $k => $request;
            (), (signaled()), (fenced()), (signaled().fenced()))
    };
    ($end:ident, $k:ident => $request:expr, solicited) => {
        post_with_every_flag!(@each $end, $k => $request;
            (), (signaled()), (fenced()), (signaled().fenced()),
            (solicited()), (signaled().solicited()),
            (fenced().solicited()), (solicited().signaled().fenced()))
    };
    (@each $end:ident, $k:ident => $request:expr; $(($($flags:tt)*)),*) => {{
        let mut $k = 0;
        $(
            let request = $request.id($k as u64);
            post_with_every_flag!(@post $end, request, $($flags)*);
            $k += 1;
        )*
        $end.qp.sends().ring();
        $k
    }};
    (@post $end:ident, $request:ident,) => { $end.qp.sends().post($request).unwrap() };
    (@post $end:ident, $request:ident, $($flags:tt)+) => {
        $end.qp.sends().post($request.$($flags)+).unwrap()
    };
}

/// Bytes of a piece, and bytes from one piece to the next.
const LEN: usize = 48;
const STRIDE: usize = 64;

fn at(k: usize) -> std::ops::Range<usize> {
    k * STRIDE..k * STRIDE + LEN
}

fn remote_at(k: usize) -> std::ops::Range<u64> {
    let range = at(k);
    range.start as u64..range.end as u64
}

/// The signaled requests complete, in order, and no other does.
#[track_caller]
fn signaled_complete<V: Verbs>(end: &mut End<V>, posted: usize) {
    for id in (1..posted).step_by(2) {
        assert_eq!(sent(&mut end.cq), id as u64);
    }
}

/// The first `count` pieces arrived, and what lies between them is as it was.
#[track_caller]
fn pieces_arrived<V: Verbs>(b: &End<V>, bytes: &[u8], count: usize) {
    for k in 0..count {
        assert_eq!(b.bytes(at(k)), bytes[at(k)], "piece {k}");
        assert_eq!(b.bytes(at(k).end..(k + 1) * STRIDE), [0; STRIDE - LEN], "after piece {k}");
    }
}

/// Eight receives, one for each piece.
fn post_receives<V: Verbs>(b: &mut End<V>) {
    for k in 0..8 {
        b.receive(at(k), 100 + k as u64);
    }
}

/// The receives are filled, in order, by `arrival` of each.
#[track_caller]
fn receives_are_filled<V: Verbs>(b: &mut End<V>, len: u32, arrival: impl Fn(u32) -> Arrival) {
    for k in 0..8 {
        let received = received(&mut b.cq);
        assert_eq!(received.id, 100 + u64::from(k));
        assert_eq!((received.len, received.by), (len, arrival(k)), "receive {k}");
        assert_eq!(received.solicited, k >= 4, "receive {k}");
        assert_eq!(received.queue_pair, b.qp.index());
    }
}

on_any_device! {
    fn a_write_moves_its_bytes_whatever_its_flags<V>(device) {
        let [mut a, b] = pair(device);
        let bytes = a.fill(0, 4096, 1);
        let posted = post_with_every_flag!(
            a, k => wr::write(a.piece(at(k)), b.remote(remote_at(k))).unwrap());
        signaled_complete(&mut a, posted);
        pieces_arrived(&b, &bytes, posted);
    }

    fn a_write_with_immediate_also_completes_a_receive_whose_memory_it_leaves_alone<V>(device) {
        let [mut a, mut b] = pair(device);
        let bytes = a.fill(0, 4096, 2);
        for k in 0..8 {
            b.receive(4096..4200, 100 + k);
        }
        let posted = post_with_every_flag!(a, k => wr::write_immediate(
            a.piece(at(k)), b.remote(remote_at(k)), 0xfeed_0000 + k as u32).unwrap(), solicited);
        signaled_complete(&mut a, posted);
        receives_are_filled(&mut b, LEN as u32, |k| Arrival::WriteImmediate(0xfeed_0000 + k));
        pieces_arrived(&b, &bytes, posted);
        assert_eq!(b.bytes(4096..4200), [0; 104]);
    }

    fn a_read_fetches_the_peers_bytes_whatever_its_flags<V>(device) {
        let [mut a, b] = pair(device);
        let bytes = b.fill(0, 4096, 3);
        let posted = post_with_every_flag!(
            a, k => wr::read(a.piece(at(k)), b.remote(remote_at(k))).unwrap());
        signaled_complete(&mut a, posted);
        pieces_arrived(&a, &bytes, posted);
    }

    fn a_send_fills_the_peers_next_receive<V>(device) {
        let [mut a, mut b] = pair(device);
        let bytes = a.fill(0, 4096, 4);
        post_receives(&mut b);
        let posted = post_with_every_flag!(a, k => wr::send(a.piece(at(k))), solicited);
        signaled_complete(&mut a, posted);
        receives_are_filled(&mut b, LEN as u32, |_| Arrival::Send);
        pieces_arrived(&b, &bytes, posted);
    }

    fn a_send_with_immediate_fills_a_receive_and_brings_32_bits<V>(device) {
        let [mut a, mut b] = pair(device);
        let bytes = a.fill(0, 4096, 5);
        post_receives(&mut b);
        let posted = post_with_every_flag!(
            a, k => wr::send_immediate(a.piece(at(k)), u32::MAX - k as u32), solicited);
        signaled_complete(&mut a, posted);
        receives_are_filled(&mut b, LEN as u32, |k| Arrival::SendImmediate(u32::MAX - k));
        pieces_arrived(&b, &bytes, posted);
    }

    fn a_fetch_and_add_adds_once_and_answers_what_was_there<V>(device) {
        let [mut a, b] = pair(device);
        b.memory.write_at(0, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        let posted = post_with_every_flag!(
            a, k => wr::fetch_add(a.piece(k * 8..k * 8 + 8), b.remote(0..8), 3).unwrap());
        signaled_complete(&mut a, posted);
        // The last of them is signaled, so all are done.
        for k in 0..posted {
            let there = (u64::MAX - 1).wrapping_add(3 * k as u64);
            assert_eq!(a.bytes(k * 8..k * 8 + 8), there.to_ne_bytes(), "request {k}");
        }
        assert_eq!(b.bytes(0..8), (u64::MAX - 1).wrapping_add(3 * posted as u64).to_ne_bytes());
        assert_eq!(b.bytes(8..16), [0; 8]);
    }

    fn a_compare_and_swap_swaps_only_what_it_expected<V>(device) {
        let [mut a, b] = pair(device);
        b.memory.write_at(8, &100u64.to_ne_bytes()).unwrap();
        // Each of them expects what the one before it left.
        let posted = post_with_every_flag!(a, k => wr::compare_swap(
            a.piece(k * 8..k * 8 + 8), b.remote(8..16), 100 + k as u64, 101 + k as u64).unwrap());
        signaled_complete(&mut a, posted);
        for k in 0..posted {
            assert_eq!(a.bytes(k * 8..k * 8 + 8), (100 + k as u64).to_ne_bytes(), "request {k}");
        }
        // And this one expects wrongly.
        let request = wr::compare_swap(a.piece(0..8), b.remote(8..16), 1, 2).unwrap();
        a.post(request.id(9).signaled());
        assert_eq!(sent(&mut a.cq), 9);
        assert_eq!(a.bytes(0..8), (100 + posted as u64).to_ne_bytes());
        assert_eq!(b.bytes(8..16), (100 + posted as u64).to_ne_bytes());
    }

    fn fetch_and_adds_of_two_peers_add_up<V>(device) {
        // Both connections end at one NIC, and add to one number of its memory.
        let [mut a, b] = pair(device);
        let [mut c, d] = pair(device);
        let target = b.nic.region::<doorbell::mlx5::access::RemoteAtomic>(
            64, doorbell::mlx5::Order::InOrder).unwrap();
        drop(d);
        let remote = target.remote().slice(0..8).unwrap();
        // The second connection starts over, towards the first one's NIC.
        let queue = b.nic.completion_queue(16).unwrap();
        let far = b.nic.queue_pair(&queue).sends(4).receives(4).create().unwrap();
        let near = c.nic.queue_pair(&c.cq).sends(64).create().unwrap();
        let (to_far, to_near) = (far.endpoint(), near.endpoint());
        let options = Options::default();
        let _far = far.connect(options.rights, &to_near, &options.connection).unwrap();
        let mut near = near.connect(options.rights, &to_far, &options.connection).unwrap();
        for round in 0..50 {
            let request = wr::fetch_add(a.piece(0..8), remote, 1).unwrap();
            a.post(request.id(round).signaled());
            let request = wr::fetch_add(c.piece(0..8), remote, 1 << 32).unwrap();
            near.sends().post(request.id(round).signaled()).unwrap();
            near.sends().ring();
            assert_eq!((sent(&mut a.cq), sent(&mut c.cq)), (round, round));
        }
        let mut sum = [0; 8];
        target.read_at(0, &mut sum).unwrap();
        assert_eq!(u64::from_ne_bytes(sum), 50 << 32 | 50);
    }

    fn ids_of_64_bits_come_back_as_they_were<V>(device) {
        let [mut a, mut b] = pair(device);
        for id in [0, 1, u64::from(u32::MAX), 1 << 63, u64::MAX] {
            b.receive(0..8, !id);
            a.post(wr::send(a.piece(0..8)).id(id).signaled());
            assert_eq!(sent(&mut a.cq), id);
            assert_eq!(received(&mut b.cq).id, !id);
        }
    }

    fn an_id_that_is_not_given_is_0<V>(device) {
        let [mut a, mut b] = pair(device);
        b.receive(0..8, 5);
        b.qp.receives().post(wr::receive(Nothing)).unwrap();
        b.qp.receives().ring();
        a.post(wr::send(a.piece(0..8)).signaled());
        a.post(wr::send(Nothing).signaled());
        assert_eq!((sent(&mut a.cq), sent(&mut a.cq)), (0, 0));
        assert_eq!((received(&mut b.cq).id, received(&mut b.cq).id), (5, 0));
    }

    fn writes_of_one_queue_pair_land_in_order<V>(device) {
        let [mut a, b] = pair(device);
        // Each write covers all that the one before it wrote: the last one's bytes must stay.
        for k in 0..64 {
            a.memory.write_at(k * 8, &[k as u8; 8]).unwrap();
            let request = wr::write(a.piece(k * 8..k * 8 + 8), b.remote(0..8)).unwrap();
            a.qp.sends().post(request).unwrap();
        }
        let request = wr::write(Nothing, b.remote(0..0)).unwrap();
        a.post(request.id(1).signaled());
        assert_eq!(sent(&mut a.cq), 1);
        assert_eq!(b.bytes(0..8), [63; 8]);
    }

    fn a_fenced_write_carries_what_the_read_before_it_fetched<V>(device) {
        let [mut a, b] = pair(device);
        for round in 0..20 {
            let bytes = b.fill(0, 4096, round);
            let read = wr::read(a.piece(0..4096), b.remote(0..4096)).unwrap();
            a.qp.sends().post(read).unwrap();
            let write = wr::write(a.piece(0..4096), b.remote(8192..12288)).unwrap();
            a.post(write.fenced().id(round).signaled());
            assert_eq!(sent(&mut a.cq), round);
            assert_eq!(b.bytes(8192..12288), bytes, "round {round}");
        }
    }

    fn inline_bytes_can_be_reused_as_soon_as_they_are_posted<V>(device) {
        let [mut a, b] = pair(device);
        let mut bytes = [0; 24];
        for k in 0..32u8 {
            bytes.fill(k);
            let at = u64::from(k) * 24;
            let request = wr::write(Inline(&bytes[..]), b.remote(at..at + 24)).unwrap();
            a.qp.sends().post(request).unwrap();
            bytes.fill(0xff);
        }
        a.post(wr::write(Nothing, b.remote(0..0)).unwrap().signaled());
        sent(&mut a.cq);
        for k in 0..32 {
            assert_eq!(b.bytes(k * 24..k * 24 + 24), [k as u8; 24]);
        }
    }

    fn both_ends_send_at_once_and_to_themselves<V>(device) {
        let options = Options::default();
        // A queue pair can be its own peer.
        let nic: Nic<V> = device.nic(0);
        let mut queue = nic.completion_queue(64).unwrap();
        let qp = nic.queue_pair(&queue).sends(8).receives(8).create().unwrap();
        let to_itself = qp.endpoint();
        let mut qp = qp.connect(options.rights, &to_itself, &options.connection).unwrap();
        qp.receives().post(wr::receive(Nothing).id(1)).unwrap();
        qp.receives().ring();
        qp.sends().post(wr::send_immediate(Nothing, 77).id(2).signaled()).unwrap();
        qp.sends().ring();
        let both = [crate::device::next(&mut queue), crate::device::next(&mut queue)];
        assert!(both.iter().any(|one| matches!(one,
            doorbell::completion::Completion::Received(it) if it.by == Arrival::SendImmediate(77))));

        let [mut a, mut b] = pair_of::<V, doorbell_hal::mmio::Uncached>(device, &options);
        for end in [&mut a, &mut b] {
            for k in 0..16 {
                end.receive(k * 64..k * 64 + 64, k as u64);
            }
        }
        let from_a = a.fill(32768, 1024, 8);
        let from_b = b.fill(32768, 1024, 9);
        for k in 0..16 {
            for end in [&mut a, &mut b] {
                let from = 32768 + k * 64;
                end.post(wr::send(end.piece(from..from + 64)));
            }
        }
        for k in 0..16 {
            assert_eq!(received(&mut a.cq).id, k);
            assert_eq!(received(&mut b.cq).id, k);
        }
        assert_eq!(b.bytes(0..1024), from_a);
        assert_eq!(a.bytes(0..1024), from_b);
    }
}

#[test]
fn requests_whose_sides_do_not_fit_are_refused_before_they_are_posted() {
    // SAFETY: M2: the slices are never posted.
    let local = |len| unsafe { wr::LocalSlice::from_parts(0x1000, len, 1) };
    let remote = |at, len| wr::RemoteSlice::new(at, len, 2);
    let too_long = |given, room| SizeError::TooLong { given, room };
    assert_eq!(wr::write(local(9), remote(0, 8)).unwrap_err(), too_long(9, 8));
    assert_eq!(wr::write([local(5), local(4)], remote(0, 8)).unwrap_err(), too_long(9, 8));
    assert_eq!(wr::write(Inline([0; 9]), remote(0, 8)).unwrap_err(), too_long(9, 8));
    assert_eq!(wr::write_immediate(local(1), remote(0, 0), 0).unwrap_err(), too_long(1, 0));
    assert_eq!(wr::read(local(9), remote(0, 8)).unwrap_err(), too_long(9, 8));
    assert!(wr::write(local(8), remote(0, 8)).is_ok() && wr::read(local(0), remote(0, 0)).is_ok());
    for (into, at) in [(7, 8), (9, 8), (0, 8)] {
        let refused = wr::fetch_add(local(into), remote(0, at), 1).unwrap_err();
        assert_eq!(refused, SizeError::NotEight { given: into.into() });
    }
    let refused = wr::compare_swap(local(8), remote(0, 16), 1, 2).unwrap_err();
    assert_eq!(refused, SizeError::NotEight { given: 16 });
    let refused = wr::fetch_add(local(8), remote(12, 8), 1).unwrap_err();
    assert_eq!(refused, SizeError::Misaligned { address: 12 });
    assert!(refused.to_string().contains("0xc is not a multiple of 8"), "{refused}");
}
