//! Posting, ringing, polling and arming allocate nothing and make no system call.
//!
//! The NICs here are stepped, so that nothing of theirs runs while the engine's thread is listened
//! to. Registers are of two kinds: memory, mapped with the type that maps a real NIC's registers, so
//! that all that runs is the engine's; and the virtual NIC's own, whose stores go into a queue of
//! fixed length, which is the model's cost. (On a network that runs by itself such a store may also
//! wake the NIC's thread, with a system call of the model's.)

#[path = "../device/mod.rs"]
mod device;
mod noise;

use device::{Device, End, Options, Register, Verbs, pair_of};
use doorbell::completion::Completion;
use doorbell::mlx5::{CompletionQueue, Notified};
use doorbell::wr::{self, Inline, Nothing, PostError};
use doorbell_hal::mmio::{Uncached, WriteCombining};
use doorbell_model::connectx::Network;
use doorbell_model::{VirtualConnectx, WatchedConnectx};
use noise::{Listener, Noise, noise_of};

#[global_allocator]
static ALLOCATOR: Listener = Listener;

impl Verbs for WatchedConnectx {
    type Fabric = Network;

    fn open(network: &Network, _: usize) -> Self {
        WatchedConnectx::new(VirtualConnectx::builder().network(network).open())
    }
}

/// Runs `section`, which must be quiet.
#[track_caller]
fn quiet<R>(what: &str, section: impl FnOnce() -> R) -> R {
    let (result, noise) = noise_of(section);
    assert_eq!(noise, Noise::NONE, "{what}");
    result
}

fn posts_and_rings<V: Verbs, C: Register>(a: &mut End<V, C>, b: &End<V, C>) {
    let (here, there, word) = (a.piece(0..512), b.remote(0..512), a.piece(512..520));
    let pieces = [here, word, here, word, here, word, here];
    let long = [7; 300];
    quiet("posting each operation, with a doorbell each", || {
        let sends = a.qp.sends();
        sends.post(wr::write(here, there).unwrap().id(1)).unwrap();
        sends.ring();
        sends.post(wr::write_immediate(here, there, 9).unwrap().solicited()).unwrap();
        sends.ring();
        sends.post(wr::read(here, there).unwrap().fenced()).unwrap();
        sends.ring();
        sends.post(wr::send(Nothing)).unwrap();
        sends.ring();
        sends.post(wr::send_immediate(here, 3)).unwrap();
        sends.ring();
        let at = there.slice(0..8).unwrap();
        sends.post(wr::fetch_add(word, at, 1).unwrap()).unwrap();
        sends.ring();
        sends.post(wr::compare_swap(word, at, 1, 2).unwrap()).unwrap();
        sends.ring();
        sends.post(wr::send(Inline([1; 100]))).unwrap();
        sends.ring();
        sends.post(wr::send(Inline(&long[..])).id(2).signaled()).unwrap();
        sends.ring();
    });
    quiet("posting a batch, with one doorbell", || {
        let sends = a.qp.sends();
        while sends.room() > 8 {
            sends.post(wr::send(pieces).signaled()).unwrap();
        }
        sends.ring();
    });
    quiet("posting to a ring that is full, or what does not fit", || {
        let sends = a.qp.sends();
        while sends.room() > 0 {
            sends.post(wr::write(Nothing, there).unwrap()).unwrap();
        }
        assert_eq!(sends.post(wr::send(here)), Err(PostError::Full));
        let long = Inline([0; 2000]);
        assert!(matches!(sends.post(wr::send(long)), Err(PostError::InlineTooLong { .. })));
        assert!(matches!(sends.post(wr::send([here; 99])), Err(PostError::TooManyPieces { .. })));
        sends.ring();
    });
}

fn receives<V: Verbs, C: Register>(b: &mut End<V, C>) {
    let (piece, other) = (b.piece(0..4096), b.piece(4096..8192));
    quiet("posting receives until there is no room", || {
        let receives = b.qp.receives();
        let mut id = 0;
        while receives.room() > 1 {
            receives.post(wr::receive([piece, other]).id(id)).unwrap();
            receives.ring();
            id += 1;
        }
        receives.post(wr::receive(piece)).unwrap();
        assert_eq!(receives.post(wr::receive(Nothing)), Err(PostError::Full));
        receives.ring();
    });
}

/// Polls until there is nothing: how many completions were done, filled, and failed.
fn polls<V: Verbs, N>(cq: &mut CompletionQueue<V, N>) -> [u32; 3] {
    quiet("polling until there is nothing", || {
        let mut counts = [0; 3];
        while let Some(completion) = cq.poll() {
            match completion {
                Completion::Sent(_) => counts[0] += 1,
                Completion::Received(_) => counts[1] += 1,
                _ => counts[2] += 1,
            }
        }
        counts
    })
}

/// All of the hot path, in several laps round the rings.
fn all<V: Verbs<Fabric = Network>, C: Register>() {
    let network = Network::stepped(1);
    let device = Device::<V>::on(network.clone());
    let options = Options { pieces: 2, ..Options::default() };
    let [mut a, mut b] = pair_of::<V, C>(&device, &options);
    for _ in 0..10 {
        receives(&mut b);
        posts_and_rings(&mut a, &b);
        network.run_until_idle(1_000_000);
        let there = polls(&mut b.cq);
        assert!(there[1] > 4 && there[2] == 0, "{there:?}");
        // A ring that was filled to the last with unsignaled requests is freed by one more.
        let done = polls(&mut a.cq);
        assert!(done[0] > 1 && done[2] == 0, "{done:?}");
        a.post(wr::write(Nothing, b.remote(0..0)).unwrap().signaled());
        network.run_until_idle(1_000_000);
        assert_eq!(polls(&mut a.cq), [1, 0, 0]);
    }
    // Failures, too.
    receives(&mut b);
    let mut errored = b.qp.fail().unwrap();
    network.run_until_idle(1_000_000);
    assert!(polls(&mut b.cq)[2] > 1);
    assert!(quiet("asking whether all is drained", || errored.is_drained()));

    // Events are armed without a call; only waiting for them takes one.
    let channel = a.nic.event_channel().unwrap();
    let mut cq: CompletionQueue<V, Notified> =
        a.nic.completion_queue_with_events(64, &channel).unwrap();
    quiet("arming", || {
        for _ in 0..10 {
            cq.arm();
            cq.arm_solicited();
        }
    });
    assert_eq!(polls(&mut cq), [0; 3]);
}

#[test]
fn uncached_registers_that_are_memory() {
    all::<WatchedConnectx, Uncached>();
}

#[test]
fn write_combining_registers_that_are_memory() {
    all::<WatchedConnectx, WriteCombining>();
}

#[test]
fn uncached_registers_of_the_virtual_nic() {
    all::<VirtualConnectx, Uncached>();
}

#[test]
fn write_combining_registers_of_the_virtual_nic() {
    all::<VirtualConnectx, WriteCombining>();
}

#[test]
fn what_is_not_quiet_is_heard() {
    let (boxed, noise) = noise_of(|| std::hint::black_box(Box::new(7)));
    assert_eq!(noise.allocations, 1);
    let ((), noise) = noise_of(|| drop(std::hint::black_box(boxed)));
    assert_eq!(noise.allocations, 1);
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: K2: the call takes nothing and changes nothing.
        let (_, noise) = noise_of(|| unsafe { libc::getppid() });
        assert_eq!((noise.system_calls, noise.last), (1, libc::SYS_getppid));
        let (_, noise) = noise_of(std::thread::yield_now);
        assert_eq!((noise.system_calls, noise.last), (1, libc::SYS_sched_yield));
    }
    let (sum, noise) = noise_of(|| 1 + std::hint::black_box(1));
    assert_eq!((sum, noise), (2, Noise::NONE));
}
