//! Completion queues: where completions are written, and when that raises an event.

use super::{Counters, Log, Refused, Ring};
use crate::memory::AddressSpace;
use doorbell::mlx5::abi::cqe::{Completion, CompletionOpcode, OpcodeOwner};
use doorbell::mlx5::abi::doorbell::{ArmWord, ConsumerWord};
use zerocopy::{FromZeros, IntoBytes};

/// Where the owner byte is in a completion.
const OWNER_OFFSET: usize = std::mem::offset_of!(Completion, op_own);
/// Indexes of completions are counted modulo 2^24.
const INDEX: u32 = 0xff_ffff;

/// An arm word that software never writes: its two highest bits are reserved.
const TAKEN: u32 = u32::MAX;

/// What a completion queue is made of.
#[derive(Clone, Debug)]
pub struct CompletionQueueContext {
    /// The ring: `entry_bytes << log_size` bytes.
    pub ring: Ring,
    /// The binary logarithm of the number of entries.
    pub log_size: u8,
    /// Bytes of an entry: 64 or 128.
    pub entry_bytes: u8,
    /// The device address of the doorbell record.
    pub record: u64,
    /// The UAR page that it is armed through.
    pub uar: u32,
    /// Completions overwrite what was not consumed, instead of failing the queue.
    pub ignore_overrun: bool,
}

/// What the queue waits for before it raises an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    /// Nothing raises an event.
    Idle,
    /// Any completion.
    Any,
    /// A solicited one, or an error.
    Solicited,
}

/// A completion queue.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    pub(super) context: CompletionQueueContext,
    /// Queue pairs (and shared queues) that complete here.
    pub(super) users: u32,
    /// Completions written.
    producer: u32,
    /// One past the last completion that was solicited or an error.
    last_solicited: Option<u32>,
    arm: Arm,
    /// One past the last completion that an event reported, until that is long ago.
    reported: Option<u32>,
    /// The sequence number of the arm that waits, or that raised the last event.
    sequence: Option<u8>,
    /// It was overrun, or its memory is gone. Nothing more is written.
    failed: bool,
}

/// How writing a completion went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It is in the ring.
    Quietly,
    /// It is in the ring, and raises an event.
    WithEvent,
    /// The queue failed now, on this completion.
    Failed,
    /// The queue had failed before.
    Nowhere,
}

impl CompletionQueue {
    pub(super) fn new(context: CompletionQueueContext) -> Self {
        CompletionQueue {
            context,
            users: 0,
            producer: 0,
            last_solicited: None,
            arm: Arm::Idle,
            reported: None,
            sequence: None,
            failed: false,
        }
    }

    fn entries(&self) -> u32 {
        1 << self.context.log_size
    }

    /// Completions that software has not consumed, as its record says.
    fn unconsumed(&self, space: &dyn AddressSpace) -> Option<u32> {
        let word = space.load_word(self.context.record).ok()?;
        let consumer = ConsumerWord::from_memory(word).index().get();
        Some(self.producer.wrapping_sub(consumer) & INDEX)
    }

    /// Writes a completion, whose owner bit is set here. `announced` says that it is solicited or
    /// an error; `always` that it raises an event armed or not.
    pub(super) fn write(
        &mut self,
        space: &dyn AddressSpace,
        completion: &Completion,
        announced: bool,
        always: bool,
        counters: &mut Counters,
        log: &mut Log,
    ) -> Written {
        if self.failed {
            return Written::Nowhere;
        }
        match self.unconsumed(space) {
            Some(unconsumed) if unconsumed < self.entries() || self.context.ignore_overrun => {}
            Some(unconsumed) => {
                counters.overruns += 1;
                log.note(format_args!(
                    "a completion queue of {} entries is overrun: {unconsumed} are not consumed",
                    self.entries()
                ));
                self.failed = true;
                return Written::Failed;
            }
            None => {
                log.note("a completion queue's doorbell record has no memory");
                self.failed = true;
                return Written::Failed;
            }
        }
        if let Err(fault) = self.put(space, completion) {
            log.note(format_args!("a completion ring: {fault}"));
            self.failed = true;
            return Written::Failed;
        }
        counters.completions += 1;
        self.producer = self.producer.wrapping_add(1);
        if announced {
            self.last_solicited = Some(self.producer);
        }
        let due = match self.arm {
            Arm::Any => true,
            Arm::Solicited => announced,
            Arm::Idle => false,
        };
        if due {
            self.arm = Arm::Idle;
            self.reported = Some(self.producer);
        }
        // What is further back than the ring is long was consumed, and a count of it would wrap.
        let is_old = |reported: &u32| self.producer.wrapping_sub(*reported) > self.entries();
        if self.reported.as_ref().is_some_and(is_old) {
            self.reported = None;
        }
        if due || always { Written::WithEvent } else { Written::Quietly }
    }

    /// Goes on in another ring, of as many entries as `log_size` says. The last completion in the
    /// old ring says so.
    pub(super) fn resize(
        &mut self,
        space: &dyn AddressSpace,
        ring: Ring,
        log_size: u8,
    ) -> Result<(), Refused> {
        let refused = |value| Refused::Parameter { what: "log of a completion ring", value };
        let unconsumed = self.unconsumed(space).filter(|_| !self.failed);
        // One more: the completion that says so counts in both rings.
        let unconsumed = unconsumed.ok_or(refused(log_size.into()))? + 1;
        if unconsumed > self.entries() || unconsumed > 1 << log_size {
            return Err(refused(log_size.into()));
        }
        let mut last = Completion::new_zeroed();
        last.op_own = OpcodeOwner::new().with_kind(CompletionOpcode::Resize);
        self.put(space, &last).map_err(|fault| Refused::Parameter {
            what: "address of a completion ring",
            value: fault.address,
        })?;
        self.producer = self.producer.wrapping_add(1);
        self.context.ring = ring;
        self.context.log_size = log_size;
        Ok(())
    }

    /// The bytes of the entry, then its owner byte.
    fn put(
        &self,
        space: &dyn AddressSpace,
        completion: &Completion,
    ) -> Result<(), crate::memory::Fault> {
        let index = self.producer & (self.entries() - 1);
        let size = u64::from(self.context.entry_bytes);
        // A completion is the last 64 bytes of its entry.
        let at = u64::from(index) * size + size - size_of::<Completion>() as u64;
        let owner = self.producer & self.entries() != 0;
        let mut completion = *completion;
        completion.op_own = completion.op_own.with_owner(owner);
        let bytes = completion.as_bytes();
        let ring = &self.context.ring;
        ring.write(space, at, &bytes[..OWNER_OFFSET])?;
        ring.publish(space, at + OWNER_OFFSET as u64, bytes[OWNER_OFFSET])
    }

    /// Arms the queue. Answers whether that raises an event at once, because the completion that it
    /// waits for is there already.
    ///
    /// A completion that an event has reported raises no second one, although software that arms
    /// between the event and its poll says that it has not consumed it (perftest does that, and
    /// counts on one event for each completion). The field `last_notified_index` of the context
    /// (`struct mlx5_ifc_cqc_bits`) says that hardware remembers it, too.
    ///
    /// An arm with the sequence number of the arm that raised the last event is a repetition of
    /// that arm, whose event software has not seen yet: it raises none.
    pub(super) fn arm(&mut self, word: ArmWord) -> bool {
        let sequence = word.sequence().get();
        if self.arm == Arm::Idle && self.sequence == Some(sequence) {
            return false;
        }
        self.sequence = Some(sequence);
        // Indexes are modulo 2^24.
        let is_after = |index: u32, base: u32| {
            let ahead = index.wrapping_sub(base) & INDEX;
            ahead != 0 && ahead <= INDEX / 2
        };
        let consumer = word.consumer().get();
        let base = match self.reported {
            Some(reported) if is_after(reported, consumer) => reported,
            _ => consumer,
        };
        let newest = if word.solicited_only() { self.last_solicited } else { Some(self.producer) };
        let there = newest.is_some_and(|newest| is_after(newest, base));
        self.arm = match (there, word.solicited_only()) {
            (true, _) => Arm::Idle,
            (false, true) => Arm::Solicited,
            (false, false) => Arm::Any,
        };
        if there {
            // The event is for the first of them: who consumes only that one hears of the next.
            let first = self.producer.wrapping_sub(self.producer.wrapping_sub(base) & INDEX);
            self.reported = Some(first.wrapping_add(1));
        }
        there
    }

    /// Marks the arm word of the record as taken: see [`Self::take_arm`].
    pub(super) fn mark_arm(&self, space: &dyn AddressSpace) {
        let _ = space.swap_word(self.context.record.wrapping_add(4), TAKEN);
    }

    /// The arm word of the record, if software wrote it since it was taken last.
    pub(super) fn take_arm(&self, space: &dyn AddressSpace) -> Option<ArmWord> {
        let at = self.context.record.wrapping_add(4);
        if space.load_word(at).ok()? == TAKEN {
            return None;
        }
        // Software may write again meanwhile: what is taken is what is marked.
        let word = space.swap_word(at, TAKEN).ok()?;
        Some(ArmWord::from_memory(word))
    }

    /// Whether the arm word of the record is older than the one that came through the register.
    /// Software writes the record first.
    pub(super) fn record_is_behind(&self, space: &dyn AddressSpace, word: ArmWord) -> bool {
        let Ok(record) = space.load_word(self.context.record.wrapping_add(4)) else { return true };
        let record = ArmWord::from_memory(record);
        let ahead = record.consumer().get().wrapping_sub(word.consumer().get()) & INDEX;
        ahead > INDEX / 2 || (ahead == 0 && record.sequence() != word.sequence())
    }

    /// Completions written, modulo 2^32.
    pub(super) fn producer(&self) -> u32 {
        self.producer
    }

    /// Whether it failed.
    pub(super) fn is_failed(&self) -> bool {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::TestMemory;
    use doorbell::mlx5::abi::U24;
    use doorbell::mlx5::abi::doorbell::ArmSequence;

    const RING: u64 = 0x1_0000;
    const RECORD: u64 = 0x8000;

    struct Bench {
        memory: TestMemory,
        queue: CompletionQueue,
        counters: Counters,
        log: Log,
    }

    impl Bench {
        fn new(log_size: u8, entry_bytes: u8) -> Self {
            let mut memory = TestMemory::new();
            memory.add(RING, usize::from(entry_bytes) << log_size);
            memory.add(RECORD, 8);
            let queue = CompletionQueue::new(CompletionQueueContext {
                ring: Ring::flat(RING, u64::from(entry_bytes) << log_size),
                log_size,
                entry_bytes,
                record: RECORD,
                uar: 1,
                ignore_overrun: false,
            });
            Bench { memory, queue, counters: Counters::default(), log: Log::default() }
        }

        fn write(&mut self, announced: bool) -> Written {
            let mut completion = Completion::fresh();
            completion.op_own = OpcodeOwner::new().with_kind(CompletionOpcode::ReceiveSend);
            let Bench { memory, queue, counters, log } = self;
            queue.write(memory, &completion, announced, false, counters, log)
        }

        fn consumed(&self, count: u32) {
            let word = ConsumerWord::new().with_index(U24::truncate(count));
            let space: &dyn AddressSpace = &self.memory;
            space.write(RECORD, word.as_bytes()).unwrap();
        }

        fn owner(&self, entry: u64) -> u8 {
            let mut byte = [0];
            let size = u64::from(self.queue.context.entry_bytes);
            let space: &dyn AddressSpace = &self.memory;
            space.read(RING + (entry + 1) * size - 1, &mut byte).unwrap();
            byte[0]
        }
    }

    fn arm(consumer: u32, solicited: bool, sequence: u32) -> ArmWord {
        ArmWord::new()
            .with_consumer(U24::truncate(consumer))
            .with_solicited_only(solicited)
            .with_sequence(ArmSequence::of(sequence))
    }

    #[test]
    fn the_owner_bit_is_the_pass_over_the_ring() {
        for entry_bytes in [64, 128] {
            let mut bench = Bench::new(1, entry_bytes);
            for pass in 0..3 {
                for entry in 0..2 {
                    assert_eq!(bench.write(false), Written::Quietly);
                    assert_eq!(bench.owner(entry), 0x20 | (pass % 2) as u8);
                    bench.consumed(bench.queue.producer());
                }
            }
        }
    }

    #[test]
    fn a_ring_that_is_full_fails_its_queue_and_says_so_once() {
        let mut bench = Bench::new(1, 64);
        assert_eq!(bench.write(false), Written::Quietly);
        assert_eq!(bench.write(false), Written::Quietly);
        assert_eq!(bench.write(false), Written::Failed);
        bench.consumed(2);
        assert_eq!(bench.write(false), Written::Nowhere);
        assert_eq!(bench.counters.overruns, 1);
    }

    #[test]
    fn a_ring_that_ignores_overruns_is_overwritten() {
        let mut bench = Bench::new(0, 64);
        bench.queue.context.ignore_overrun = true;
        for _ in 0..3 {
            assert_eq!(bench.write(false), Written::Quietly);
        }
    }

    #[test]
    fn an_arm_raises_one_event_at_the_next_completion() {
        let mut bench = Bench::new(4, 64);
        assert!(!bench.queue.arm(arm(0, false, 0)));
        assert_eq!(bench.write(false), Written::WithEvent);
        assert_eq!(bench.write(false), Written::Quietly);
    }

    #[test]
    fn an_arm_behind_the_producer_raises_its_event_at_once() {
        let mut bench = Bench::new(4, 64);
        bench.write(false);
        assert!(bench.queue.arm(arm(0, false, 0)));
        assert_eq!(bench.write(false), Written::Quietly);
        assert!(!bench.queue.arm(arm(2, false, 1)));
        assert_eq!(bench.write(false), Written::WithEvent);
    }

    #[test]
    fn an_arm_repeated_before_its_event_was_seen_raises_no_second_one() {
        let mut bench = Bench::new(4, 64);
        assert!(!bench.queue.arm(arm(0, false, 0)));
        assert!(!bench.queue.arm(arm(0, false, 0)));
        assert_eq!(bench.write(false), Written::WithEvent);
        bench.write(false);
        assert!(!bench.queue.arm(arm(0, false, 0)));
        assert!(bench.queue.arm(arm(0, false, 1)));
    }

    #[test]
    fn a_completion_that_an_event_reported_raises_no_second_one() {
        let mut bench = Bench::new(2, 64);
        for round in 0..20 {
            // Armed after the event, before the completion is polled.
            assert!(!bench.queue.arm(arm(round, false, 2 * round)), "round {round}");
            assert_eq!(bench.write(false), Written::WithEvent);
            assert!(!bench.queue.arm(arm(round, false, 2 * round + 1)), "round {round}");
            bench.consumed(round + 1);
        }
    }

    #[test]
    fn who_consumes_one_completion_an_event_hears_of_the_next() {
        let mut bench = Bench::new(2, 64);
        for _ in 0..3 {
            bench.write(false);
        }
        assert!(bench.queue.arm(arm(0, false, 0)));
        assert!(bench.queue.arm(arm(1, false, 1)));
        assert!(bench.queue.arm(arm(2, false, 2)));
        assert!(!bench.queue.arm(arm(3, false, 3)));
    }

    #[test]
    fn an_event_of_long_ago_hides_nothing() {
        let mut bench = Bench::new(1, 64);
        assert!(!bench.queue.arm(arm(0, false, 0)));
        assert_eq!(bench.write(false), Written::WithEvent);
        // So many more that the count of them seems to be behind it.
        for written in 1..5u32 {
            bench.consumed(written);
            bench.write(false);
        }
        bench.queue.producer += INDEX / 2 + 5;
        assert!(bench.queue.arm(arm(bench.queue.producer - 1, false, 1)));
    }

    #[test]
    fn a_solicited_arm_waits_for_a_solicited_completion() {
        let mut bench = Bench::new(4, 64);
        assert!(!bench.queue.arm(arm(0, true, 0)));
        assert_eq!(bench.write(false), Written::Quietly);
        assert_eq!(bench.write(true), Written::WithEvent);
        bench.write(false);
        assert_eq!(bench.write(true), Written::Quietly);
        bench.write(false);
        // The solicited one is number 3: behind 4, not behind 3.
        assert!(!bench.queue.arm(arm(4, true, 1)));
        assert!(bench.queue.arm(arm(3, true, 2)));
    }

    #[test]
    fn a_resized_ring_goes_on_where_the_old_one_says_that_it_ends() {
        let mut bench = Bench::new(2, 64);
        bench.write(false);
        let ring = Ring::flat(RING + 0x1000, 64 << 3);
        bench.memory.add(RING + 0x1000, 64 << 3);
        bench.queue.resize(&bench.memory, ring.clone(), 3).unwrap();
        assert_eq!(bench.owner(1), CompletionOpcode::Resize as u8 * 16);
        bench.write(false);
        // The third completion is the third entry of the new ring.
        assert_eq!(bench.owner(0x1000 / 64 + 2), 0x20);
        // Three are not consumed: with one more, too many for two entries.
        assert!(bench.queue.resize(&bench.memory, ring, 1).is_err());
    }

    #[test]
    fn indexes_wrap_at_24_bits() {
        let mut bench = Bench::new(1, 64);
        bench.queue.producer = INDEX;
        bench.consumed(INDEX);
        assert!(!bench.queue.arm(arm(INDEX, false, 0)));
        assert_eq!(bench.write(false), Written::WithEvent);
        assert_eq!(bench.write(false), Written::Quietly);
        assert_eq!(bench.write(false), Written::Failed);
    }
}
