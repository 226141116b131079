//! Doorbells: the words that go to registers.
//!
//! Every doorbell is one store of 8 bytes. What kind it is decides what its index counts and whether it
//! carries a toggle; so each kind has its own constructor, and there is no other way to a word.
//!
//! From Linux' `roce_hsi.h` (`struct dbc_dbc`), `qplib_res.h` and `bnxt.h`, and rdma-core's `db.c`.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// What a doorbell says (`DBC_DBC_TYPE_*`).
    pub enum DoorbellKind: u8, "doorbell type" {
        /// Requests were posted: the index is that of the send ring's next slot.
        Send = 0x0, "DBC_DBC_TYPE_SQ";
        /// Receives were posted: the index is that of the receive ring's next entry.
        Receive = 0x1, "DBC_DBC_TYPE_RQ";
        /// Receives were posted to a shared receive queue; also, on Ethernet rings, buffers.
        SharedReceive = 0x2, "DBC_DBC_TYPE_SRQ";
        /// Arms a shared receive queue: the index is the limit.
        SharedReceiveArm = 0x3, "DBC_DBC_TYPE_SRQ_ARM";
        /// Completions were consumed: the index is that of the ring's next one.
        Completion = 0x4, "DBC_DBC_TYPE_CQ";
        /// As [`Completion`](Self::Completion), and arms for the next solicited completion.
        CompletionArmSolicited = 0x5, "DBC_DBC_TYPE_CQ_ARMSE";
        /// As [`Completion`](Self::Completion), and arms for the next completion.
        CompletionArm = 0x6, "DBC_DBC_TYPE_CQ_ARMALL";
        /// Lets a completion queue be armed.
        CompletionArmEnable = 0x7, "DBC_DBC_TYPE_CQ_ARMENA";
        /// Lets a shared receive queue be armed.
        SharedReceiveArmEnable = 0x8, "DBC_DBC_TYPE_SRQ_ARMENA";
        /// Acknowledges that a completion queue moved to another ring.
        CompletionCutOff = 0x9, "DBC_DBC_TYPE_CQ_CUTOFF_ACK";
        /// Notifications were consumed.
        Notification = 0xa, "DBC_DBC_TYPE_NQ";
        /// Notifications were consumed, and the next one raises an interrupt.
        NotificationArm = 0xb, "DBC_DBC_TYPE_NQ_ARM";
        /// A pushed entry begins.
        PushStart = 0xc, "BNXT_RE_PUSH_TYPE_START";
        /// A pushed entry ends.
        PushEnd = 0xd, "BNXT_RE_PUSH_TYPE_END";
        /// Notifications raise no interrupt.
        NotificationMask = 0xe, "DBC_DBC_TYPE_NQ_MASK";
        /// Nothing.
        Null = 0xf, "DBC_DBC_TYPE_NULL";
    }
}

/// The fields of a doorbell (`struct dbc_dbc`, as one little-endian number).
#[bitfield(u64)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DoorbellFields {
    /// Where the ring is.
    #[bits(24)]
    pub index: u32,
    /// The pass over the ring, modulo 2: 0 in the first.
    pub epoch: bool,
    /// The toggle of the last notification, for arms.
    #[bits(2)]
    pub toggle: u8,
    #[bits(5)]
    __: u8,
    /// The queue's number.
    #[bits(20)]
    pub xid: u32,
    #[bits(4)]
    __: u8,
    /// 0 for RoCE, 1 for Ethernet.
    #[bits(2)]
    pub path: u8,
    /// 1.
    pub valid: bool,
    /// Traces the doorbell.
    pub debug_trace: bool,
    /// The number of a [`DoorbellKind`].
    #[bits(4)]
    pub kind: u8,
}

const INDEX_MASK: u64 = (1 << DoorbellFields::INDEX_BITS) - 1;

/// A queue's number in doorbells, of 20 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueNumber(u32);

impl QueueNumber {
    /// The largest.
    pub const MAX: u32 = (1 << DoorbellFields::XID_BITS) - 1;

    /// `number`, or `None` where it needs more bits.
    pub const fn new(number: u32) -> Option<Self> {
        if number <= Self::MAX { Some(QueueNumber(number)) } else { None }
    }

    /// The number.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl From<u16> for QueueNumber {
    fn from(number: u16) -> Self {
        QueueNumber(number.into())
    }
}

/// A place in a ring and the pass over it, as doorbells carry them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position(u32);

impl Position {
    /// The start of a ring, in the first pass.
    pub const START: Position = Position(0);

    /// The place `index` in the pass `epoch`, modulo 2.
    #[inline(always)]
    pub const fn new(index: u32, epoch: bool) -> Self {
        Position(index & INDEX_MASK as u32 | (epoch as u32) << DoorbellFields::EPOCH_OFFSET)
    }

    /// The place.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0 & INDEX_MASK as u32
    }

    /// The pass, modulo 2.
    #[inline(always)]
    pub const fn epoch(self) -> bool {
        self.0 >> DoorbellFields::EPOCH_OFFSET & 1 != 0
    }
}

/// The toggle that a completion queue's notifications carry, and that arms must repeat: 2 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Toggle(u8);

impl Toggle {
    /// The low 2 bits of `bits`.
    #[inline(always)]
    pub const fn new(bits: u8) -> Self {
        Toggle(bits & 3)
    }

    /// The bits.
    #[inline(always)]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// What of a queue's doorbells is always the same: its number, and what they say.
///
/// A `Doorbell` rings one queue, in one way: which of the constructors made it decides both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doorbell<K> {
    upper: u32,
    kind: core::marker::PhantomData<K>,
}

/// Doorbells that say how far a ring was posted or consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {}

/// Doorbells that arm, and say how far a ring was consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arms {}

/// Doorbells that say nothing but their toggle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enables {}

impl<K> Doorbell<K> {
    const fn of(kind: DoorbellKind, queue: QueueNumber) -> Self {
        const VALID: u32 = 1 << (DoorbellFields::VALID_OFFSET - 32);
        let kind = (kind as u32) << (DoorbellFields::KIND_OFFSET - 32);
        Doorbell { upper: kind | VALID | queue.0, kind: core::marker::PhantomData }
    }

    #[inline(always)]
    const fn with(self, lower: u32) -> u64 {
        ((self.upper as u64) << 32 | lower as u64).to_le()
    }
}

impl Doorbell<Moves> {
    /// Of a queue pair's send ring: the position is that of the next slot of 16 bytes.
    pub const fn send(queue_pair: QueueNumber) -> Self {
        Self::of(DoorbellKind::Send, queue_pair)
    }

    /// Of a queue pair's receive ring: the position is that of the next entry.
    pub const fn receive(queue_pair: QueueNumber) -> Self {
        Self::of(DoorbellKind::Receive, queue_pair)
    }

    /// Of a completion ring: the position is that of the next completion to consume.
    pub const fn completion(queue: QueueNumber) -> Self {
        Self::of(DoorbellKind::Completion, queue)
    }

    /// Of a notification ring: the position is that of the next notification to consume.
    pub const fn notification(ring: QueueNumber) -> Self {
        Self::of(DoorbellKind::Notification, ring)
    }

    /// Of a notification ring, whose next notification raises an interrupt.
    pub const fn notification_arm(ring: QueueNumber) -> Self {
        Self::of(DoorbellKind::NotificationArm, ring)
    }

    /// The word, as it is stored: its first byte in memory is its lowest.
    #[inline(always)]
    pub const fn to_memory(self, position: Position) -> u64 {
        self.with(position.0)
    }
}

impl Doorbell<Arms> {
    /// Arms a completion queue for the next completion.
    pub const fn completion_arm(queue: QueueNumber) -> Self {
        Self::of(DoorbellKind::CompletionArm, queue)
    }

    /// Arms a completion queue for the next solicited completion.
    pub const fn completion_arm_solicited(queue: QueueNumber) -> Self {
        Self::of(DoorbellKind::CompletionArmSolicited, queue)
    }

    /// The word, as it is stored.
    #[inline(always)]
    pub const fn to_memory(self, position: Position, toggle: Toggle) -> u64 {
        self.with(position.0 | (toggle.0 as u32) << DoorbellFields::TOGGLE_OFFSET)
    }
}

impl Doorbell<Enables> {
    /// Lets a completion queue be armed.
    pub const fn completion_arm_enable(queue: QueueNumber) -> Self {
        Self::of(DoorbellKind::CompletionArmEnable, queue)
    }

    /// The word, as it is stored.
    #[inline(always)]
    pub const fn to_memory(self, toggle: Toggle) -> u64 {
        self.with((toggle.0 as u32) << DoorbellFields::TOGGLE_OFFSET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_are_the_words_that_the_stock_drivers_write() {
        let queue = QueueNumber::new(0x12345).unwrap();
        let at = Position::new(0x6789, true);
        // type << 60 | valid << 58 | xid << 32 | epoch << 24 | index, as libbnxt_re composes it.
        assert_eq!(Doorbell::send(queue).to_memory(at).to_le(), 0x0401_2345_0100_6789);
        assert_eq!(Doorbell::receive(queue).to_memory(at).to_le(), 0x1401_2345_0100_6789);
        assert_eq!(Doorbell::completion(queue).to_memory(at).to_le(), 0x4401_2345_0100_6789);
        assert_eq!(Doorbell::notification(queue).to_memory(at).to_le(), 0xa401_2345_0100_6789);
        assert_eq!(Doorbell::notification_arm(queue).to_memory(at).to_le(), 0xb401_2345_0100_6789);
        let toggle = Toggle::new(3);
        let arm = Doorbell::completion_arm(queue).to_memory(at, toggle);
        assert_eq!(arm.to_le(), 0x6401_2345_0700_6789);
        let arm = Doorbell::completion_arm_solicited(queue).to_memory(at, toggle);
        assert_eq!(arm.to_le(), 0x5401_2345_0700_6789);
        let enable = Doorbell::completion_arm_enable(queue).to_memory(toggle);
        assert_eq!(enable.to_le(), 0x7401_2345_0600_0000);
    }

    #[test]
    fn a_doorbells_fields_are_read_as_they_were_written() {
        let word = Doorbell::send(QueueNumber::new(QueueNumber::MAX).unwrap())
            .to_memory(Position::new(u32::MAX, false));
        let fields = DoorbellFields::from_bits(u64::from_le(word));
        assert_eq!(fields.index(), 0xff_ffff);
        assert!(!fields.epoch() && fields.valid() && !fields.debug_trace());
        assert_eq!((fields.toggle(), fields.path(), fields.xid()), (0, 0, 0xf_ffff));
        assert_eq!(fields.kind(), DoorbellKind::Send.code());
        assert_eq!(QueueNumber::new(1 << 20), None);
    }
}
