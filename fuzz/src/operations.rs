//! What an engine calls, in any order, on two virtual NICs, with an oracle that knows what must have
//! moved.

mod side;

use crate::input::Input;
use crate::meddler::small_nic;
use doorbell::mlx5::Nic;
use doorbell_hal::mmio::{Uncached, WriteCombining};
use doorbell_model::connectx::Network;
use doorbell_model::fabric::Faults;
use side::Side;

/// Calls of one run.
const CALLS: usize = 96;
/// Steps that the network may take until nothing is left to do.
const STEPS: u64 = 1 << 20;

/// One call, or what happens between calls.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Posts a request.
    Post,
    /// Posts a request that the peer refuses.
    PostRefused,
    /// Posts a receive, of this many bytes.
    Receive(u16),
    /// Rings the send queue's doorbell, and announces receives.
    Ring,
    /// Takes this many completions at most.
    Poll(u8),
    /// Asks for an event, of a solicited completion only or of any.
    Arm(bool),
    /// The network does this many things.
    Step(u8),
    /// Everything that was posted is rung, received and done; then everything is checked.
    Settle,
    /// Takes the queue pair down.
    Fail,
    /// Takes both queue pairs down, drains and resets them, and connects them again.
    Reconnect,
    /// Drops both queue pairs with whatever they have outstanding, and makes and connects others.
    Replace,
}

impl Operation {
    fn of(input: &Input) -> Self {
        match input.byte() % 32 {
            0..=9 => Operation::Post,
            10 => Operation::PostRefused,
            11..=15 => Operation::Receive(input.half() % (Side::<Uncached>::LONGEST as u16 + 1)),
            16..=19 => Operation::Ring,
            20 | 21 => Operation::Poll(input.byte()),
            22 => Operation::Arm(input.flag()),
            23..=26 => Operation::Step(input.byte()),
            27 => Operation::Fail,
            28 => Operation::Reconnect,
            29 => Operation::Replace,
            _ => Operation::Settle,
        }
    }
}

/// Does operations on both sides of a connection, on a network where packets may get lost. Every
/// request completes once, in order, having moved exactly its bytes.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let mut world = World::new(&input);
    for _ in 0..CALLS {
        if input.is_empty() {
            break;
        }
        let from = input.byte() & 1;
        let operation = Operation::of(&input);
        world.call(from, operation, &input);
    }
    world.end(&input);
}

struct World {
    network: Network,
    /// One rings through a register that combines writes, the other does not.
    a: Side<WriteCombining>,
    b: Side<Uncached>,
    /// Packets may be lost so often that retries do not help.
    is_lossy: bool,
    /// Something was done, since the sides were connected, after which requests may fail.
    may_fail: bool,
}

impl World {
    fn new(input: &Input) -> Self {
        let faults = faults(input);
        let seed = input.byte().into();
        let network = Network::builder().stepped(seed).faults(seed, faults).build();
        let nic = || Nic::open(small_nic(&network)).expect("a NIC that does as it should");
        let (a, b) = (Side::new(nic()), Side::new(nic()));
        let is_lossy = faults != Faults::default();
        let mut world = World { network, a, b, is_lossy, may_fail: false };
        world.connect();
        world
    }

    fn call(&mut self, from: u8, operation: Operation, input: &Input) {
        match operation {
            Operation::Post => match from {
                0 => self.a.post(&mut self.b, input),
                _ => self.b.post(&mut self.a, input),
            },
            Operation::PostRefused => {
                self.may_fail = true;
                match from {
                    0 => self.a.post_refused(&self.b, input),
                    _ => self.b.post_refused(&self.a, input),
                }
            }
            Operation::Receive(len) => match from {
                0 => self.a.receive(len.into()),
                _ => self.b.receive(len.into()),
            },
            Operation::Ring => match from {
                0 => self.a.ring(),
                _ => self.b.ring(),
            },
            Operation::Poll(most) => {
                self.look_at_sizes();
                let may_fail = self.may_fail || self.is_lossy;
                match from {
                    0 => self.a.poll(&mut self.b, most.into(), may_fail),
                    _ => self.b.poll(&mut self.a, most.into(), may_fail),
                }
            }
            Operation::Arm(solicited) => match from {
                0 => self.a.arm(solicited),
                _ => self.b.arm(solicited),
            },
            Operation::Step(steps) => {
                (0..steps).for_each(|_| {
                    self.network.step();
                });
            }
            Operation::Settle => self.settle(),
            Operation::Fail => {
                self.may_fail = true;
                match from {
                    0 => self.a.fail(),
                    _ => self.b.fail(),
                }
            }
            Operation::Reconnect => {
                self.take_down();
                self.a.reset();
                self.b.reset();
                self.connect();
            }
            Operation::Replace => {
                self.a.drop_pair();
                self.b.drop_pair();
                self.rest();
                self.a.check_gone();
                self.b.check_gone();
                self.a.look_again(&mut self.b);
                self.b.look_again(&mut self.a);
                self.a.make();
                self.b.make();
                self.connect();
            }
        }
    }

    /// A message longer than the receive that it finds fails.
    fn look_at_sizes(&mut self) {
        self.may_fail |= self.a.has_too_long(&self.b) || self.b.has_too_long(&self.a);
    }

    fn connect(&mut self) {
        let (to_a, to_b) = (self.a.endpoint(), self.b.endpoint());
        self.a.connect(&to_b);
        self.b.connect(&to_a);
        self.may_fail = false;
    }

    fn rest(&self) {
        assert!(
            self.network.run_until_idle(STEPS),
            "the NICs do not come to rest\n{}",
            self.network.trace()
        );
    }

    /// Lets everything that was posted be done.
    fn settle(&mut self) {
        self.a.provide(&self.b);
        self.b.provide(&self.a);
        self.a.ring();
        self.b.ring();
        self.rest();
        self.look_at_sizes();
        let may_fail = self.may_fail || self.is_lossy;
        self.a.poll(&mut self.b, usize::MAX, may_fail);
        self.b.poll(&mut self.a, usize::MAX, may_fail);
        let failed = self.a.has_failed() || self.b.has_failed();
        assert!(!failed || may_fail, "requests failed for no reason\n{}", self.network.trace());
        self.a.check_events();
        self.b.check_events();
        if failed {
            self.a.look_again(&mut self.b);
            self.b.look_again(&mut self.a);
        } else {
            self.a.check_done(&mut self.b);
            self.b.check_done(&mut self.a);
        }
    }

    /// Both queue pairs fail, and everything that was posted completes.
    fn take_down(&mut self) {
        self.may_fail = true;
        self.a.fail();
        self.b.fail();
        self.rest();
        self.a.poll(&mut self.b, usize::MAX, true);
        self.b.poll(&mut self.a, usize::MAX, true);
        self.a.look_again(&mut self.b);
        self.b.look_again(&mut self.a);
    }

    fn end(mut self, input: &Input) {
        self.settle();
        if input.flag() {
            self.take_down();
        }
        let World { network, a, b, .. } = self;
        let controls = [a.control(), b.control()];
        match input.flag() {
            false => drop((a, b)),
            true => drop((b, a)),
        }
        for control in controls {
            assert_eq!(control.objects(), Default::default(), "something was left behind");
            let left = network.with_nic(control.nic(), |nic, _, _| nic.objects());
            assert_eq!(left, Some([0; 5]));
        }
    }
}

/// What goes wrong on the network: nothing, or a little of everything.
fn faults(input: &Input) -> Faults {
    let often = input.byte();
    if often < 128 {
        return Faults::default();
    }
    let per_mille = |bit: u8| if often >> bit & 1 == 1 { 30 } else { 0 };
    Faults {
        loss: per_mille(0),
        duplication: per_mille(1),
        reordering: per_mille(2),
        delay: per_mille(3),
        corruption: per_mille(4),
        longest: if often >> 5 & 1 == 1 { 2_000 } else { 200_000 },
    }
}
