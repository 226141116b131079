//! doorbell's side: the same work as in `libmlx5.c`, with the types that an engine uses, on a virtual
//! NIC whose register pages are memory, mapped as a real NIC's.

use crate::subject::{Column, OPERATIONS, Row, Subject, laps, last_timed};
use doorbell::completion::Completion;
use doorbell::mlx5::{CompletionQueue, Connection, Nic, Order, PeerRights, QueuePair, access};
use doorbell::mlx5::{ReceiveQueue, Region, SendQueue};
use doorbell::state::Rts;
use doorbell::wr::{self, Inline, LocalSlice, PostError, Receive, RemoteSlice, WorkRequest, Write};
use doorbell_hal::mmio::{Caching, Uncached, WriteCombining};
use doorbell_model::connectx::Network;
use doorbell_model::{VirtualConnectx, WatchedConnectx};
use std::cell::RefCell;
use std::rc::Rc;

type Pair<C> = QueuePair<Rts, WatchedConnectx, C>;
type Completions = CompletionQueue<WatchedConnectx>;

/// As in `libmlx5.c`.
const SLOTS: u32 = 512;
const REGION: usize = 4096;

/// Queue pairs, connected to themselves, with one completion queue.
struct Rig<C: Caching> {
    pairs: Vec<Pair<C>>,
    completions: Completions,
    network: Network,
    local: Region<access::RemoteWrite, WatchedConnectx>,
}

impl<C: Caching> Rig<C> {
    fn new(
        count: usize,
        with_caching: impl Fn(
            doorbell::mlx5::QueuePairBuilder<WatchedConnectx>,
        ) -> doorbell::mlx5::QueuePairBuilder<WatchedConnectx, C>,
    ) -> Rc<RefCell<Self>> {
        let network = Network::stepped(1);
        let file = VirtualConnectx::builder().network(&network).open();
        let nic = Nic::open(WatchedConnectx::new(file)).unwrap();
        let (sends, receives, entries) = match count {
            1 => (SLOTS, 2 * OPERATIONS as u32, 2 * SLOTS),
            _ => (4, 1, 2 * count as u32),
        };
        let completions = nic.completion_queue(entries - 1).unwrap();
        let pairs = (0..count).map(|_| {
            let pair = nic.queue_pair(&completions).sends(sends).receives(receives).overcommit();
            let pair = with_caching(pair).create().unwrap();
            let itself = pair.endpoint();
            pair.connect(PeerRights::WRITE, &itself, &Connection::default()).unwrap()
        });
        let pairs = pairs.collect();
        let local = nic.region(REGION, Order::InOrder).unwrap();
        Rc::new(RefCell::new(Rig { pairs, completions, network, local }))
    }

    fn slices(&self, len: usize) -> (LocalSlice, RemoteSlice) {
        let half = REGION / 2;
        let remote = self.local.remote();
        let remote = RemoteSlice::new(remote.address() + half as u64, half as u64, remote.rkey());
        (self.local.slice(0..len).unwrap(), remote)
    }

    /// The NIC does what there is to do.
    fn settle(&self) {
        assert!(self.network.run_until_idle(u64::MAX));
    }

    /// Polls whatever there is; answers how much.
    fn drain(&mut self) -> usize {
        let polled = std::iter::from_fn(|| self.completions.poll());
        let good = |it: &Completion| matches!(it, Completion::Sent(_) | Completion::Received(_));
        polled.inspect(|it| assert!(good(it), "{it:?}")).count()
    }
}

/// Uses a value at the cost of no instruction.
#[inline(always)]
fn used(value: u64) {
    // SAFETY: S2: no instruction touches no memory.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) value, options(nomem, nostack, preserves_flags))
    };
}

/// Repeats a statement `OPERATIONS` times, with the number of each, without a loop to count.
macro_rules! unrolled {
    ($index:ident => $statement:stmt) => {
        unrolled!(@ $index, $statement; 0 16 32 48)
    };
    (@ $index:ident, $statement:stmt; $($number:literal)*) => {
        $(unrolled!(@@ $index, $statement, $number; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);)*
    };
    (@@ $index:ident, $statement:stmt, $base:literal; $($number:literal)*) => {
        $({
            #[allow(dead_code)]
            const $index: usize = $base + $number;
            $statement
        })*
    };
}

/// Defines an operation twice, `OPERATIONS` times in a row: as a function whose instructions are
/// counted, without a loop to count, and as one whose cycles are, with the loop that an engine has,
/// whose code is in the processor's caches as an engine's is.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        fn $counted:ident / $looped:ident($($argument:ident: $type:ty),*) -> $result:ty {
            each $index:ident => $statement:stmt;
            $end:expr
        }
    )*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[inline(never)]
        fn $counted($($argument: $type),*) -> $result {
            unrolled!($index => $statement);
            $end
        }

        $(#[$doc])*
        #[inline(never)]
        #[allow(non_snake_case)]
        fn $looped($($argument: $type),*) -> $result {
            for $index in 0..OPERATIONS {
                $statement
            }
            $end
        }
    )*};
}

type Posted<const SIGNALED: bool, G> = WorkRequest<Write<G>, SIGNALED>;

/// Posts writes, with a doorbell after each `RING`.
macro_rules! posts {
    ($($counted:ident / $looped:ident, $caching:ty, $gather:ty, $ring:literal;)*) => {
        operations! {$(
            fn $counted / $looped(
                send: &mut SendQueue<WatchedConnectx, $caching>,
                requests: &[Posted<true, $gather>; OPERATIONS]
            ) -> Result<(), PostError> {
                each I => {
                    send.post(requests[I])?;
                    if (I + 1usize).is_multiple_of($ring) {
                        send.ring();
                    }
                };
                Ok(())
            }
        )*}
    };
}

posts! {
    count_ours_post / post, Uncached, LocalSlice, 1;
    count_ours_post_8 / post_8, Uncached, LocalSlice, 8;
    count_ours_post_32 / post_32, Uncached, LocalSlice, 32;
    count_ours_post_combining / post_combining, WriteCombining, LocalSlice, 1;
    count_ours_inline_16 / inline_16, WriteCombining, Inline<[u8; 16]>, 1;
    count_ours_inline_32 / inline_32, WriteCombining, Inline<[u8; 32]>, 1;
    count_ours_inline_64 / inline_64, WriteCombining, Inline<[u8; 64]>, 1;
    count_ours_inline_220 / inline_220, WriteCombining, Inline<[u8; 220]>, 1;
}

operations! {
    /// Posts writes, one in 16 of them signaled.
    fn count_ours_unsignaled / unsignaled(
        send: &mut SendQueue<WatchedConnectx>,
        requests: &[Posted<false, LocalSlice>; OPERATIONS]
    ) -> Result<(), PostError> {
        each I => {
            if I % 16 == 15 {
                send.post(requests[I].signaled())?;
            } else {
                send.post(requests[I])?;
            }
            send.ring();
        };
        Ok(())
    }

    fn count_ours_send / send(
        send: &mut SendQueue<WatchedConnectx>,
        requests: &[WorkRequest<wr::Send<LocalSlice>, true>; OPERATIONS]
    ) -> Result<(), PostError> {
        each I => {
            send.post(requests[I])?;
            send.ring();
        };
        Ok(())
    }

    /// Posts receives, each given to the NIC at once.
    fn count_ours_receive / receive(
        receive: &mut ReceiveQueue<WatchedConnectx>,
        requests: &[Receive<LocalSlice>; OPERATIONS]
    ) -> Result<(), PostError> {
        each I => {
            receive.post(requests[I])?;
            receive.ring();
        };
        Ok(())
    }

    fn count_ours_poll / poll(completions: &mut Completions) -> Option<()> {
        each _I => match completions.poll()? {
            Completion::Sent(sent) => used(sent.id),
            _ => return None,
        };
        Some(())
    }

    /// Completions of sends and of receives, in turn or not.
    fn count_ours_poll_both / poll_both(completions: &mut Completions) -> Option<()> {
        each _I => match completions.poll()? {
            Completion::Sent(sent) => used(sent.id),
            Completion::Received(received) => used(received.id),
            _ => return None,
        };
        Some(())
    }

    /// Whether nothing was there.
    fn count_ours_poll_empty / poll_empty(completions: &mut Completions) -> bool {
        each _I => if completions.poll().is_some() {
            return false;
        };
        true
    }
}

/// One of the two functions of an operation.
macro_rules! choose {
    ($loops:expr, $counted:ident / $looped:ident, $type:ty) => {
        if $loops { $looped as $type } else { $counted as $type }
    };
}

/// A subject that posts `requests` with `post`.
macro_rules! posting {
    ($loops:ident, $rig:expr, $row:expr, $column:expr, $counted:ident / $looped:ident, $request:expr) => {{
        let (rig, laps) = (Rc::clone(&$rig), laps($loops));
        let post = choose!($loops, $counted / $looped, fn(&mut _, &_) -> Result<(), PostError>);
        Subject::new($row, $column, move |id| {
            let rig = &mut *rig.borrow_mut();
            let requests = [$request(rig).id(id); OPERATIONS];
            let (ticks, posted) = last_timed(laps, || post(rig.pairs[0].sends(), &requests));
            posted.unwrap();
            rig.settle();
            assert!(rig.drain() > 0);
            ticks
        })
    }};
}

/// What doorbell does of every row.
pub fn subjects(loops: bool, rows: &mut Vec<Subject>) {
    let plain = Rig::<Uncached>::new(1, |builder| builder);
    let combining = Rig::<WriteCombining>::new(1, |builder| builder.write_combining());
    let write = |rig: &Rig<Uncached>| {
        let (local, remote) = rig.slices(64);
        wr::write(local, remote).unwrap().signaled()
    };
    let quiet = |rig: &Rig<Uncached>| {
        let (local, remote) = rig.slices(64);
        wr::write(local, remote).unwrap()
    };
    let (register, carried) = (Column::Ours, Column::OursCarried);
    rows.push(posting!(loops, plain, Row::Post, register, count_ours_post / post, write));
    rows.push(posting!(loops, plain, Row::Post8, register, count_ours_post_8 / post_8, write));
    rows.push(posting!(loops, plain, Row::Post32, register, count_ours_post_32 / post_32, write));
    rows.push(posting!(
        loops,
        plain,
        Row::Unsignaled,
        register,
        count_ours_unsignaled / unsignaled,
        quiet
    ));
    rows.push(posting!(
        loops,
        combining,
        Row::Post,
        carried,
        count_ours_post_combining / post_combining,
        |rig: &mut Rig<WriteCombining>| {
            let (local, remote) = rig.slices(64);
            wr::write(local, remote).unwrap().signaled()
        }
    ));
    macro_rules! inline {
        ($row:expr, $counted:ident / $looped:ident, $len:literal) => {
            rows.push(posting!(
                loops,
                combining,
                $row,
                carried,
                $counted / $looped,
                |rig: &mut Rig<WriteCombining>| {
                    let data = std::hint::black_box([0x5a; $len]);
                    wr::write(Inline(data), rig.slices(0).1).unwrap().signaled()
                }
            ));
        };
    }
    inline!(Row::Inline16, count_ours_inline_16 / inline_16, 16);
    inline!(Row::Inline32, count_ours_inline_32 / inline_32, 32);
    inline!(Row::Inline64, count_ours_inline_64 / inline_64, 64);
    inline!(Row::Inline220, count_ours_inline_220 / inline_220, 220);
    messages(loops, &plain, rows);
    let laps = laps(loops);
    let polls = [(Row::Poll, 1), (Row::Poll16, 1), (Row::Poll64, 64), (Row::Poll4096, 4096)];
    for (row, count) in polls {
        let rig = if count == 1 { Rc::clone(&plain) } else { Rig::new(count, |builder| builder) };
        let polls = choose!(loops, count_ours_poll / poll, fn(&mut Completions) -> Option<()>);
        let mut first = 0;
        rows.push(Subject::new(row, register, move |id| {
            let rig = &mut *rig.borrow_mut();
            let (local, remote) = rig.slices(64);
            for at in first..first + laps * OPERATIONS {
                let sends = rig.pairs[at % count].sends();
                sends.post(wr::write(local, remote).unwrap().id(id).signaled()).unwrap();
                sends.ring();
            }
            first += laps * OPERATIONS;
            rig.settle();
            let (ticks, polled) = last_timed(laps, || polls(&mut rig.completions));
            assert!(polled.is_some() && rig.drain() == 0);
            ticks
        }));
    }
    let empty_polls =
        choose!(loops, count_ours_poll_empty / poll_empty, fn(&mut Completions) -> bool);
    rows.push(Subject::new(Row::PollEmpty, register, move |_| {
        let rig = &mut *plain.borrow_mut();
        let (ticks, empty) = last_timed(laps, || empty_polls(&mut rig.completions));
        assert!(empty);
        ticks
    }));
}

/// Sends and receives, in three parts.
fn messages(loops: bool, rig: &Rc<RefCell<Rig<Uncached>>>, rows: &mut Vec<Subject>) {
    let laps = laps(loops);
    let receives = |rig: &Rig<Uncached>, id| [wr::receive(rig.slices(64).0).id(id); OPERATIONS];
    let sends =
        |rig: &Rig<Uncached>, id| [wr::send(rig.slices(64).0).signaled().id(id); OPERATIONS];
    let post_receives =
        choose!(loops, count_ours_receive / receive, fn(&mut _, &_) -> Result<(), PostError>);
    let post_sends =
        choose!(loops, count_ours_send / send, fn(&mut _, &_) -> Result<(), PostError>);
    let polls =
        choose!(loops, count_ours_poll_both / poll_both, fn(&mut Completions) -> Option<()>);
    let this = Rc::clone(rig);
    rows.push(Subject::new(Row::Receive, Column::Ours, move |id| {
        let rig = &mut *this.borrow_mut();
        let (receives, sends) = (receives(rig, id), sends(rig, id));
        let (ticks, posted) =
            last_timed(laps, || post_receives(rig.pairs[0].receives(), &receives));
        posted.unwrap();
        for _ in 0..laps {
            for send in sends {
                rig.pairs[0].sends().post(send).unwrap();
            }
        }
        rig.pairs[0].sends().ring();
        rig.settle();
        assert_eq!(rig.drain(), 2 * laps * OPERATIONS);
        ticks
    }));
    let this = Rc::clone(rig);
    rows.push(Subject::new(Row::Send, Column::Ours, move |id| {
        let rig = &mut *this.borrow_mut();
        let (receives, sends) = (receives(rig, id), sends(rig, id));
        for _ in 0..laps {
            for receive in receives {
                rig.pairs[0].receives().post(receive).unwrap();
            }
        }
        rig.pairs[0].receives().ring();
        let (ticks, posted) = last_timed(laps, || post_sends(rig.pairs[0].sends(), &sends));
        posted.unwrap();
        rig.settle();
        assert_eq!(rig.drain(), 2 * laps * OPERATIONS);
        ticks
    }));
    let this = Rc::clone(rig);
    rows.push(Subject::new(Row::PollBoth, Column::Ours, move |id| {
        let rig = &mut *this.borrow_mut();
        let (receives, sends) = (receives(rig, id), sends(rig, id));
        // A message completes twice.
        for (receive, send) in receives.into_iter().zip(sends).take(OPERATIONS / 2 * laps) {
            rig.pairs[0].receives().post(receive).unwrap();
            rig.pairs[0].sends().post(send).unwrap();
        }
        rig.pairs[0].receives().ring();
        rig.pairs[0].sends().ring();
        rig.settle();
        let (ticks, polled) = last_timed(laps, || polls(&mut rig.completions));
        assert!(polled.is_some() && rig.drain() == 0);
        ticks
    }));
}
