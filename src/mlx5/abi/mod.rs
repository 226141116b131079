//! The layouts that the driver shares with the NIC and with the kernel.
//!
//! | module | holds | byte order |
//! |---|---|---|
//! | [`wqe`] | work entries: what a poster writes for the NIC | big-endian |
//! | [`cqe`] | completions: what the NIC writes for a poller | big-endian |
//! | [`doorbell`] | doorbell records in memory, and the words that go to registers | big-endian |
//! | [`uar`] | the page of doorbell registers | big-endian |
//! | [`event`] | the records read from the kernel's event files | the host's |
//! | [`verbs`] | the verbs ioctl and its commands, the same for every NIC | the host's |
//! | [`driver`] | what the mlx5 driver adds to those commands | the host's |
//!
//! Every type is plain bytes: [`zerocopy`] turns bytes into it and it into bytes with no unsafe
//! code, and any bytes are a value. A field whose bytes may hold something that no specification
//! names is a number with a fallible conversion beside it, or an enum with a variant for the rest.
//!
//! The constructors and accessors cannot panic, and those that posting and polling need are always
//! inlined. The `with_` and `set_` methods of bit fields are for the rest: they panic for a value
//! that needs more bits than its field has (where the field's type, such as [`U24`] or an enum,
//! does not rule that out), and a call of them from another crate may stay a call.
//!
//! Sizes, offsets and alignments are checked when this crate compiles, and `tests/abi_golden.rs`
//! checks them, and what the types encode, against the C headers that they come from.

pub mod cqe;
pub mod doorbell;
pub mod driver;
pub mod event;
pub mod uar;
pub mod verbs;
pub mod wqe;

pub use crate::layout::Unknown;

/// A 24-bit number: a queue pair's, a completion queue's, a user index, a packet sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct U24(u32);

impl U24 {
    /// The largest, 2^24 - 1.
    pub const MAX: U24 = U24(0xff_ffff);

    /// `value`, or `None` where it needs more than 24 bits.
    pub const fn new(value: u32) -> Option<U24> {
        if value <= Self::MAX.0 { Some(U24(value)) } else { None }
    }

    /// The low 24 bits of `value`.
    #[inline(always)]
    pub const fn truncate(value: u32) -> U24 {
        U24(value & Self::MAX.0)
    }

    /// The number.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        // The mask changes nothing, and lets the compiler see that the bound holds.
        self.0 & Self::MAX.0
    }

    /// As a bit field reads it.
    #[inline(always)]
    pub(crate) const fn from_bits(bits: u32) -> U24 {
        U24::truncate(bits)
    }

    /// As a bit field writes it.
    #[inline(always)]
    pub(crate) const fn into_bits(self) -> u32 {
        self.get()
    }
}

impl From<U24> for u32 {
    fn from(value: U24) -> u32 {
        value.get()
    }
}
