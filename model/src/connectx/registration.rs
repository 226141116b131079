//! Entries that change memory keys (UMR): rights, bounds, page lists, windows on other keys; and that
//! take keys away and give them back.

use super::entry::Malformed;
use super::firmware::mkc;
use super::host::Attendant;
use super::queue_pair::Service;
use crate::memory::{Entry, Pages, Part, Registration, Strides};
use crate::rc::Status;
use doorbell::mlx5::abi::wqe::{DataSegment, SEGMENT_BYTES};
use zerocopy::FromBytes;

/// The number of such entries (`MLX5_OPCODE_UMR`).
pub(super) const OPCODE: u8 = 0x25;

/// What a key needs to be changed by entries, beside its registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changeable {
    /// The most units of 16 bytes of its list of pages or parts.
    pub units: u32,
    /// Its list is one of parts of other keys, not of pages.
    pub parts: bool,
    /// The queue pair that it was bound by (windows of type 2).
    pub queue_pair: Option<u32>,
}

/// Bytes of a unit of lists: a part, or two pages.
pub const UNIT: usize = 16;
/// The most units of a list, whatever its key says: 128 GiB of small pages.
pub const MOST_UNITS: u32 = 1 << 24;

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// Which key.
    key: u32,
    flags: u8,
    /// What of it changes.
    mask: u64,
    /// The key's new context, of which the changes are taken.
    context: [u8; mkc::BYTES],
    /// The new part of its list, and where in the list that goes, in units.
    list: NewList,
    place: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NewList {
    Unchanged,
    /// In the entry itself.
    Inline(Vec<u8>),
    /// In memory.
    Memory(Entry),
}

/// How a change is to be done (`MLX5_UMR_*`; libmlx5's `MLX5_WQE_UMR_CTRL_FLAG_*`).
mod flag {
    /// Only if the queue pair is the one that bound the key.
    pub(super) const CHECK_QUEUE_PAIR: u8 = 1 << 3;
    /// The list goes to a place that is said.
    pub(super) const PLACE: u8 = 1 << 4;
    /// Only if the key is free.
    pub(super) const CHECK_IS_FREE: u8 = 1 << 5;
    /// Only if the key is not free.
    pub(super) const CHECK_IN_USE: u8 = 1 << 6;
    /// The list is in the entry.
    pub(super) const INLINE: u8 = 1 << 7;
}

/// What changes (`MLX5_MKEY_MASK_*`).
mod mask {
    pub(super) const LENGTH: u64 = 1;
    pub(super) const PAGE_SIZE: u64 = 1 << 1;
    pub(super) const START: u64 = 1 << 6;
    pub(super) const DOMAIN: u64 = 1 << 7;
    pub(super) const REMOTE_INVALIDATE: u64 = 1 << 8;
    pub(super) const SIGNATURE_ERROR: u64 = 1 << 9;
    pub(super) const SIGNATURE: u64 = 1 << 12;
    pub(super) const VARIANT: u64 = 1 << 13;
    pub(super) const QUEUE_PAIR: u64 = 1 << 14;
    pub(super) const LOCAL_READ: u64 = 1 << 17;
    pub(super) const LOCAL_WRITE: u64 = 1 << 18;
    pub(super) const REMOTE_READ: u64 = 1 << 19;
    pub(super) const REMOTE_WRITE: u64 = 1 << 20;
    pub(super) const ATOMIC: u64 = 1 << 21;
    pub(super) const SMALL_FENCE: u64 = 1 << 23;
    pub(super) const RELAXED_WRITE: u64 = 1 << 25;
    pub(super) const FREE: u64 = 1 << 29;
    pub(super) const PAGE_SIZE_5: u64 = 1 << 42;
    pub(super) const RELAXED_READ: u64 = 1 << 47;
    /// What this device can change.
    pub(super) const KNOWN: u64 = LENGTH
        | PAGE_SIZE
        | START
        | DOMAIN
        | REMOTE_INVALIDATE
        | SIGNATURE_ERROR
        | SIGNATURE
        | VARIANT
        | QUEUE_PAIR
        | LOCAL_READ
        | LOCAL_WRITE
        | REMOTE_READ
        | REMOTE_WRITE
        | ATOMIC
        | SMALL_FENCE
        | RELAXED_WRITE
        | FREE
        | PAGE_SIZE_5
        | RELAXED_READ;
}

/// Where parts are in an entry: the key in the control segment; flags, length and place of the list,
/// and the mask in the segment that follows (`struct mlx5_wqe_umr_ctrl_seg`); then the context
/// (`struct mlx5_mkey_seg`), then the list.
mod place {
    pub(super) const KEY: usize = 12;
    pub(super) const FLAGS: usize = 16;
    pub(super) const LIST_UNITS: usize = 16 + 4;
    pub(super) const LIST_PLACE: usize = 16 + 6;
    pub(super) const MASK: usize = 16 + 8;
    pub(super) const LIST_PLACE_HIGH: usize = 16 + 16;
    pub(super) const CONTEXT: usize = 64;
    pub(super) const LIST: usize = 128;
}

/// No queue pair bound it (`MLX5_MKEY_...`: 24 ones).
const NO_QUEUE_PAIR: u32 = 0xff_ffff;

/// Decodes an entry's bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<KeyChange, Malformed> {
    let number = |at: usize, length: usize| {
        let bytes = bytes.get(at..at + length).ok_or(Malformed::Truncated)?;
        Ok(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    let context = bytes.get(place::CONTEXT..place::LIST).ok_or(Malformed::Truncated)?;
    let context: [u8; mkc::BYTES] = context.try_into().map_err(|_| Malformed::Truncated)?;
    let mask = number(place::MASK, 8)?;
    // Signatures are not kept: a key may only say that it has none.
    let signature = mask & mask::SIGNATURE != 0 && mkc::BSF_EN.is_set(&context);
    if mask & !mask::KNOWN != 0 || signature {
        return Err(Malformed::Opcode(OPCODE));
    }
    let flags = number(place::FLAGS, 1)? as u8;
    let length = number(place::LIST_UNITS, 2)? as usize * UNIT;
    let list = if length == 0 {
        NewList::Unchanged
    } else if flags & flag::INLINE != 0 {
        // The entry may end before the padding does.
        let rest = bytes.get(place::LIST..).unwrap_or_default();
        NewList::Inline(rest[..length.min(rest.len())].to_vec())
    } else {
        let segment = bytes.get(place::LIST..place::LIST + SEGMENT_BYTES);
        let segment = segment.and_then(|bytes| DataSegment::read_from_bytes(bytes).ok());
        let segment = segment.filter(|segment| !segment.is_inline()).ok_or(Malformed::Truncated)?;
        let length = (length as u32).min(segment.length());
        NewList::Memory(Entry { address: segment.addr.get(), length, lkey: segment.lkey.get() })
    };
    let place = match flags & flag::PLACE != 0 {
        true => number(place::LIST_PLACE, 2)? | number(place::LIST_PLACE_HIGH, 4)? << 16,
        false => 0,
    };
    Ok(KeyChange { key: number(place::KEY, 4)? as u32, flags, mask, context, list, place })
}

impl Attendant<'_> {
    /// Changes a key.
    pub(super) fn change_key(&mut self, change: &KeyChange) -> Status {
        match self.try_change_key(change) {
            Ok(()) => Status::Success,
            Err((status, why)) => {
                self.log.note(format_args!(
                    "queue pair {:#x}: key {:#x} cannot be changed: {why}",
                    self.core.number, change.key
                ));
                status
            }
        }
    }

    fn try_change_key(&mut self, change: &KeyChange) -> Result<(), (Status, &'static str)> {
        let refused = |why| (Status::MemoryWindowBind, why);
        let has = |bits| change.mask & bits != 0;
        // The kernel's own queue pair changes keys of every domain.
        let trusted = self.core.context.service == Service::Registration;
        let index = change.key >> 8;
        let (key, valid, registration) =
            self.memory.keys.at_index(index).ok_or(refused("there is no such key"))?;
        let form = self.changeable.get(&index).copied();
        if form.is_none() && (!trusted || change.list != NewList::Unchanged) {
            return Err(refused("it was not made to be changed"));
        }
        if !trusted && registration.protection_domain != self.core.context.protection_domain {
            return Err(refused("it is of another protection domain"));
        }
        if !has(mask::VARIANT) && key != change.key {
            return Err(refused("its low byte is another"));
        }
        if change.flags & flag::CHECK_IS_FREE != 0 && valid {
            return Err(refused("it is not free"));
        }
        if change.flags & flag::CHECK_IN_USE != 0 && !valid {
            return Err(refused("it is free"));
        }
        let bound_by = form.and_then(|form| form.queue_pair);
        if change.flags & flag::CHECK_QUEUE_PAIR != 0 && bound_by != Some(self.core.number) {
            return Err(refused("another queue pair has bound it"));
        }
        let old = registration.protection_domain;
        let new = mkc::PD.get32(&change.context);
        if has(mask::DOMAIN)
            && (!trusted && new != old || new != 0 && !self.domains.contains_key(&new))
        {
            return Err(refused("its new protection domain is none"));
        }
        let pages = self.new_pages(change, registration, form)?;
        // Whoever took an access to memory for granted has it; nobody after this.
        self.fabric.settle(self.port);
        let free = match has(mask::FREE) {
            true => mkc::FREE.is_set(&change.context),
            false => !valid,
        };
        let variant = match has(mask::VARIANT) {
            true => mkc::MKEY_7_0.get(&change.context) as u8,
            false => key as u8,
        };
        self.memory.keys.rewrite(index, variant, !free, |registration| {
            change.apply(registration);
            if let Some(pages) = pages {
                registration.pages = pages;
            }
        });
        if let Some(form) = self.changeable.get_mut(&index)
            && has(mask::QUEUE_PAIR)
        {
            let number = mkc::QPN.get32(&change.context);
            form.queue_pair = (number != NO_QUEUE_PAIR).then_some(number);
        }
        if has(mask::DOMAIN) {
            if let Some(users) = self.domains.get_mut(&old) {
                *users = users.saturating_sub(1);
            }
            if let Some(users) = self.domains.get_mut(&new) {
                *users += 1;
            }
        }
        Ok(())
    }

    /// The key's pages after the change, if those change.
    fn new_pages(
        &self,
        change: &KeyChange,
        registration: &Registration,
        form: Option<Changeable>,
    ) -> Result<Option<Pages>, (Status, &'static str)> {
        let refused = |why| (Status::MemoryWindowBind, why);
        let log_size = mkc::LOG_PAGE_SIZE.get(&change.context) as u8;
        let new_size = (change.mask & mask::PAGE_SIZE != 0).then_some(log_size);
        let list = match &change.list {
            NewList::Inline(bytes) => bytes.clone(),
            NewList::Memory(entry) => self
                .list_bytes(*entry)
                .ok_or((Status::LocalProtection, "its new list cannot be read"))?,
            NewList::Unchanged => Vec::new(),
        };
        let Some(form) = form else { return Ok(None) };
        if change.place + list.len().div_ceil(UNIT) as u64 > form.units.into() {
            return Err(refused("its new list is longer than its room"));
        }
        let place = change.place as usize;
        if form.parts {
            if list.is_empty() {
                return Ok(None);
            }
            let old = match &registration.pages {
                Pages::Parts(parts) => &parts[..],
                _ => &[],
            };
            return match strides(&list) {
                Some(strides) if place == 0 => Ok(Some(Pages::Strides(strides))),
                Some(_) => Err(refused("a pattern in the middle of a list")),
                None => {
                    let new: Vec<Part> = list.chunks_exact(UNIT).map(part).collect();
                    let parts = spliced(old, place, &new).ok_or(refused("a gap in its list"))?;
                    Ok(Some(Pages::Parts(parts.into())))
                }
            };
        }
        let (old_size, old) = match &registration.pages {
            Pages::List { log_size, addresses } => (Some(*log_size), &addresses[..]),
            _ => (None, &[][..]),
        };
        if list.is_empty() && new_size.is_none() {
            return Ok(None);
        }
        // A change of the list alone may come before the one that says the size of its pages.
        let log_size = new_size.or(old_size).unwrap_or(12);
        if !(12..=40).contains(&log_size) {
            return Err(refused("its pages have no such size"));
        }
        let new: Vec<u64> = list.chunks_exact(8).map(page).collect();
        let place = place * (UNIT / 8);
        let addresses = spliced(old, place, &new).ok_or(refused("a gap in its list"))?;
        Ok(Some(Pages::List { log_size, addresses: addresses.into() }))
    }

    /// The bytes of a list in memory.
    fn list_bytes(&self, entry: Entry) -> Option<Vec<u8>> {
        /// What one payload holds for sure.
        const PART: usize = 4096;
        // The kernel's list is under a key of its own domain, whatever the queue pair's.
        let domain = match self.core.context.service {
            Service::Registration => self.memory.keys.get(entry.lkey)?.protection_domain,
            _ => self.core.context.protection_domain,
        };
        let mut bytes = vec![0; entry.length as usize];
        for (offset, part) in (0..).step_by(PART).zip(bytes.chunks_mut(PART)) {
            let payload = self.memory.gather(domain, &[entry], offset, part.len()).ok()?;
            payload.read(0, part).ok()?;
        }
        Some(bytes)
    }
}

impl KeyChange {
    /// Changes all of a registration but its pages.
    fn apply(&self, registration: &mut Registration) {
        let has = |bits| self.mask & bits != 0;
        let context = &self.context;
        if has(mask::START) {
            registration.start = mkc::START_ADDR.get(context);
        }
        if has(mask::LENGTH) {
            registration.length = match mkc::LENGTH64.is_set(context) {
                true => u64::MAX - registration.start,
                false => mkc::LEN.get(context),
            };
        }
        if has(mask::DOMAIN) {
            registration.protection_domain = mkc::PD.get32(context);
        }
        if has(mask::REMOTE_INVALIDATE) {
            registration.remote_invalidate = mkc::EN_RINVAL.is_set(context);
        }
        if has(mask::RELAXED_WRITE) {
            registration.relaxed = mkc::RELAXED_ORDERING_WRITE.is_set(context);
        }
        let access = &mut registration.access;
        for (bit, field, allows) in [
            (mask::LOCAL_WRITE, mkc::LW, &mut access.local_write),
            (mask::REMOTE_READ, mkc::RR, &mut access.remote_read),
            (mask::REMOTE_WRITE, mkc::RW, &mut access.remote_write),
            (mask::ATOMIC, mkc::A, &mut access.remote_atomic),
        ] {
            if has(bit) {
                *allows = field.is_set(context);
            }
        }
    }
}

/// `old` with `new` in it from `place` on; `None` if that leaves a gap.
fn spliced<T: Copy>(old: &[T], place: usize, new: &[T]) -> Option<Vec<T>> {
    let mut list = old.get(..place)?.to_vec();
    list.extend_from_slice(new);
    list.extend_from_slice(old.get(list.len()..).unwrap_or_default());
    Some(list)
}

fn word(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The address of a page (`struct mlx5_mtt`): its low bits are flags.
pub(super) fn page(entry: &[u8]) -> u64 {
    word(entry, 0, 8) & !0xfff
}

/// A part of another key (`struct mlx5_klm`).
pub(super) fn part(entry: &[u8]) -> Part {
    Part { length: word(entry, 0, 4), key: word(entry, 4, 4) as u32, address: word(entry, 8, 8) }
}

/// A list that is a pattern (libmlx5's `struct mlx5_wqe_umr_repeat_block_seg` and
/// `mlx5_wqe_umr_repeat_ent_seg`).
fn strides(list: &[u8]) -> Option<Strides> {
    /// Where a key is in parts, a pattern says that it is one.
    const PATTERN: u64 = 0x400;
    if word(list, 4, 4) != PATTERN {
        return None;
    }
    let count = word(list, 14, 2) as usize;
    let part = |entry: &[u8]| {
        let length = word(entry, 2, 2);
        let part = Part { key: word(entry, 4, 4) as u32, address: word(entry, 8, 8), length };
        (part, word(entry, 0, 2) as u32)
    };
    Some(Strides { parts: list.chunks_exact(UNIT).skip(1).take(count).map(part).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry that changes `mask` of key 0x40b42.
    fn entry(flags: u8, units: u16, mask: u64) -> Vec<u8> {
        let mut bytes = vec![0; 128];
        bytes[12..16].copy_from_slice(&0x40b42u32.to_be_bytes());
        bytes[16] = flags;
        bytes[20..22].copy_from_slice(&units.to_be_bytes());
        bytes[24..32].copy_from_slice(&mask.to_be_bytes());
        bytes
    }

    #[test]
    fn an_entry_names_a_key_what_changes_and_how() {
        let mask = mask::DOMAIN | mask::REMOTE_READ | mask::REMOTE_WRITE;
        let mut bytes = entry(flag::INLINE, 0, mask);
        bytes[66] = 1 << 4;
        bytes[76..80].copy_from_slice(&0x8000_0055u32.to_be_bytes());
        let change = decode(&bytes).unwrap();
        assert_eq!((change.key, change.mask, &change.list), (0x40b42, mask, &NewList::Unchanged));
        assert_eq!(mkc::PD.get(&change.context), 0x55);
        assert!(mkc::RR.is_set(&change.context) && !mkc::RW.is_set(&change.context));
        assert_eq!(decode(&bytes[..112]), Err(Malformed::Truncated));
        bytes[24] |= 1;
        assert_eq!(decode(&bytes), Err(Malformed::Opcode(OPCODE)));
    }

    #[test]
    fn a_list_is_in_the_entry_or_in_memory() {
        let mut bytes = entry(flag::INLINE, 4, 0);
        bytes.extend([1; 20]);
        assert_eq!(decode(&bytes).unwrap().list, NewList::Inline(vec![1; 20]));
        let mut bytes = entry(flag::PLACE, 4, 0);
        bytes[22..24].copy_from_slice(&3u16.to_be_bytes());
        bytes[32..36].copy_from_slice(&2u32.to_be_bytes());
        assert_eq!(decode(&bytes), Err(Malformed::Truncated));
        bytes.extend([0, 0, 0, 64, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0x10, 0]);
        let change = decode(&bytes).unwrap();
        let list = Entry { address: 0x1000, length: 64, lkey: 0x300 };
        assert_eq!((change.list, change.place), (NewList::Memory(list), 2 << 16 | 3));
    }

    #[test]
    fn a_list_is_written_over_and_goes_on_but_has_no_gaps() {
        assert_eq!(spliced(&[1, 2, 3], 1, &[9]), Some(vec![1, 9, 3]));
        assert_eq!(spliced(&[1, 2, 3], 3, &[9]), Some(vec![1, 2, 3, 9]));
        assert_eq!(spliced(&[1, 2, 3], 4, &[9]), None);
    }

    #[test]
    fn a_pattern_is_told_from_parts() {
        let mut list = vec![0, 0, 0, 6, 0, 0, 4, 0, 0, 0, 0, 3, 0, 0, 0, 2];
        list.extend([0, 8, 0, 4, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0x10, 0]);
        list.extend([0, 9, 0, 2, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0x20, 0]);
        list.extend([0; 16]);
        let found = strides(&list).unwrap();
        let part = |address, length| Part { key: 0x102, address, length };
        assert_eq!(found.parts[..], [(part(0x1000, 4), 8), (part(0x2000, 2), 9)]);
        assert!(strides(&list[16..]).is_none());
    }
}
