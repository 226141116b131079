//! Notifications: what the NIC writes into a notification ring.
//!
//! Bit 0 of byte 8 is written last: it is 1 in the NIC's first pass over the ring, then 0, and so on.
//!
//! From Linux' `roce_hsi.h` (`struct nq_base`, `nq_cn`, `nq_srq_event`). All little-endian.

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

codes! {
    /// What a notification is about (`NQ_BASE_TYPE_*`).
    pub enum NotificationKind: u8, "notification type" {
        /// The firmware tells something: not about RoCE.
        Firmware = 0x2e, "ASYNC_EVENT_CMPL_TYPE_HWRM_ASYNC_EVENT";
        /// A completion queue has a completion.
        Completion = 0x30, "NQ_BASE_TYPE_CQ_NOTIFICATION";
        /// A shared receive queue is running low.
        SharedReceive = 0x32, "NQ_BASE_TYPE_SRQ_EVENT";
        /// Doorbells are dropped.
        Doorbell = 0x34, "NQ_BASE_TYPE_DBQ_EVENT";
    }
}

/// The first half-word of a notification: what it is about.
#[bitfield(u16, repr = U16, from = U16::new, into = U16::get)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct KindWord {
    /// The number of a [`NotificationKind`].
    #[bits(6)]
    pub kind: u8,
    /// What the next arm of the queue must carry.
    #[bits(2)]
    pub toggle: u8,
    __: u8,
}

structures! {
    /// A notification, whatever it is about.
    pub struct Notification, "nq_base", size 16 {
        /// What it is about.
        info10_type: KindWord, 0x0;
        /// As the kind says.
        info16: U16, 0x2;
        /// As the kind says.
        info32: U32, 0x4;
        /// Bit 0 of the first says in which pass over the ring the NIC wrote it.
        info63_v: [U32; 2], 0x8;
    }

    /// A completion queue has a completion.
    pub struct CompletionNotification, "nq_cn", size 16 {
        /// What it is about.
        kind = "type": KindWord, 0x0;
        /// 0.
        reserved16: U16, 0x2;
        /// What the queue was made with, the low half.
        cq_handle_low: U32, 0x4;
        /// Bit 0 says in which pass over the ring the NIC wrote it.
        v: U32, 0x8;
        /// What the queue was made with, the high half.
        cq_handle_high: U32, 0xc;
    }

    /// A shared receive queue is running low.
    pub struct SharedReceiveNotification, "nq_srq_event", size 16 {
        /// What it is about, and in the two upper bits the toggle.
        kind = "type": u8, 0x0;
        /// 1: the limit was reached.
        event: u8, 0x1;
        /// 0.
        reserved16: U16, 0x2;
        /// What the queue was made with, the low half.
        srq_handle_low: U32, 0x4;
        /// Bit 0 says in which pass over the ring the NIC wrote it.
        v: U32, 0x8;
        /// What the queue was made with, the high half.
        srq_handle_high: U32, 0xc;
    }
}
