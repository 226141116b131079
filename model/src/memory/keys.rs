//! Memory keys: what a device lets a queue pair, or its peer, do with which bytes.
//!
//! A key is 32 bits: `index << 8 | variant` (IBTA vol. 1, chapter 10: the low
//! byte is the consumer's, so that a key that comes back can differ).
//! One key serves as both lkey and rkey, as on ConnectX and BCM57608.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// What a registration allows beyond reading by its own side, which is always allowed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Access {
    /// This side's work requests may write (receives, read responses, atomic results).
    pub local_write: bool,
    /// Peers may write.
    pub remote_write: bool,
    /// Peers may read.
    pub remote_read: bool,
    /// Peers may do atomics.
    pub remote_atomic: bool,
}

impl Access {
    /// Every right.
    pub const ALL: Access =
        Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: true };

    /// From the bits of `enum ib_uverbs_access_flags` (`rdma/ib_user_ioctl_verbs.h`): local write
    /// 1, remote write 2, remote read 4, remote atomic 8. Other bits are not looked at.
    pub fn from_verbs(bits: u32) -> Self {
        Access {
            local_write: bits & 1 != 0,
            remote_write: bits & 2 != 0,
            remote_read: bits & 4 != 0,
            remote_atomic: bits & 8 != 0,
        }
    }

    /// Whether `right` is among these.
    pub fn allows(self, right: Right) -> bool {
        match right {
            Right::LocalRead => true,
            Right::LocalWrite => self.local_write,
            Right::RemoteWrite => self.remote_write,
            Right::RemoteRead => self.remote_read,
            Right::RemoteAtomic => self.remote_atomic,
            Right::RemoteInvalidate => false,
        }
    }
}

/// What an access needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// This side reads.
    LocalRead,
    /// This side writes.
    LocalWrite,
    /// The peer writes.
    RemoteWrite,
    /// The peer reads.
    RemoteRead,
    /// The peer does an atomic.
    RemoteAtomic,
    /// The peer takes the key away. Not one of [`Access`]'s rights:
    /// [`Registration::remote_invalidate`] gives it.
    RemoteInvalidate,
}

/// Memory that a key stands for.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The protection domain's number. A queue pair of another domain is refused.
    pub protection_domain: u32,
    /// What is allowed.
    pub access: Access,
    /// The first address that work requests and peers may name.
    pub start: u64,
    /// The bytes from there on. `start + length` may be 2^64.
    pub length: u64,
    /// Where the bytes lie.
    pub pages: Pages,
    /// Writes may land in any order (relaxed ordering).
    pub relaxed: bool,
    /// A peer may take the key away with a SEND with invalidate.
    pub remote_invalidate: bool,
}

/// Where a registration's bytes lie in the device's address space.
#[derive(Clone, Debug)]
pub enum Pages {
    /// The byte at address `a` of the registration is at device address
    /// `device_start + (a - start)`.
    Flat {
        /// The device address of the registration's first byte.
        device_start: u64,
    },
    /// Pages of `1 << log_size` bytes. The first one holds the registration's first byte, at the
    /// offset that `start` has in a page.
    List {
        /// The binary logarithm of a page's size in bytes.
        log_size: u8,
        /// The device address of each page's first byte.
        addresses: Arc<[u64]>,
    },
    /// Parts of other registrations of the same protection domain, one after the other.
    Parts(Arc<[Part]>),
    /// A pattern of such parts, again and again.
    Strides(Strides),
}

/// A part of another registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The other registration's key.
    pub key: u32,
    /// The first byte's address, as that one counts.
    pub address: u64,
    /// The bytes.
    pub length: u64,
}

/// A pattern of parts that is taken again and again: each part with the bytes from its start to its
/// start the next time.
#[derive(Clone, Debug)]
pub struct Strides {
    /// The parts, and their strides.
    pub parts: Arc<[(Part, u32)]>,
}

impl Pages {
    /// Device addresses are the registration's own addresses.
    pub fn identity(start: u64) -> Self {
        Pages::Flat { device_start: start }
    }
}

/// Why an access is refused, in the order in which hardware checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No registration has this index, or its variant byte differs, or it was invalidated.
    UnknownKey {
        /// The key.
        key: u32,
    },
    /// The registration belongs to another protection domain.
    ProtectionDomain {
        /// The key.
        key: u32,
        /// The queue pair's protection domain.
        queue_pair: u32,
        /// The registration's.
        registration: u32,
    },
    /// The registration does not allow this.
    Right {
        /// The key.
        key: u32,
        /// What was needed.
        right: Right,
    },
    /// The bytes are not all in the registration.
    Bounds {
        /// The key.
        key: u32,
        /// The first address.
        address: u64,
        /// The number of bytes.
        length: u64,
    },
    /// An atomic's address is not a multiple of 8.
    Misaligned {
        /// The address.
        address: u64,
    },
    /// A scatter/gather list holds fewer bytes than the message.
    ListTooShort {
        /// The bytes of the list.
        capacity: u64,
        /// The end of the access in bytes from the list's start.
        needed: u64,
    },
    /// Registrations stand on others too many times.
    Nested {
        /// The key that would be one too many.
        key: u32,
    },
    /// The registration's pages have no memory behind them.
    Fault(super::Fault),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Refusal::UnknownKey { key } => write!(f, "no memory is registered under key {key:#x}"),
            Refusal::ProtectionDomain { key, queue_pair, registration } => write!(
                f,
                "key {key:#x} is of protection domain {registration}, the queue pair of {queue_pair}"
            ),
            Refusal::Right { key, right } => write!(f, "key {key:#x} does not allow {right:?}"),
            Refusal::Bounds { key, address, length } => {
                write!(f, "{length} bytes at {address:#x} are not all under key {key:#x}")
            }
            Refusal::Misaligned { address } => {
                write!(f, "an atomic's address {address:#x} is not a multiple of 8")
            }
            Refusal::ListTooShort { capacity, needed } => {
                write!(f, "a list of {capacity} bytes was asked for byte {needed}")
            }
            Refusal::Nested { key } => {
                write!(f, "key {key:#x} is reached through too many others")
            }
            Refusal::Fault(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<super::Fault> for Refusal {
    fn from(fault: super::Fault) -> Self {
        Refusal::Fault(fault)
    }
}

/// Every index up to the table's bound is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoFreeKey {
    /// The bound.
    pub capacity: u32,
}

impl fmt::Display for NoFreeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all {} memory keys are in use", self.capacity)
    }
}

impl std::error::Error for NoFreeKey {}

/// The keys of one device.
pub struct Keys {
    /// By index. Grows as indexes are first used.
    slots: Vec<Slot>,
    /// Freed indexes, the longest free first, so that a stale key stays unknown for long.
    free: VecDeque<u32>,
    first_index: u32,
    capacity: u32,
    handed_out: u32,
}

#[derive(Clone, Default)]
struct Slot {
    variant: u8,
    /// Refuses every access, but is not free.
    invalid: bool,
    registration: Option<Registration>,
}

impl Keys {
    /// No keys yet; at most `capacity` at once, with indexes from `first_index` on. Indexes below it
    /// are for [`insert_reserved`](Self::insert_reserved).
    ///
    /// # Panics
    ///
    /// If the last index would not fit 24 bits.
    pub fn new(first_index: u32, capacity: u32) -> Self {
        let end = u64::from(first_index) + u64::from(capacity);
        assert!(end <= 1 << 24, "indexes of memory keys have 24 bits");
        Keys { slots: Vec::new(), free: VecDeque::new(), first_index, capacity, handed_out: 0 }
    }

    /// Hands out a key for `registration`: a free index, with `variant` as its low byte if given
    /// (some drivers choose it), else one that differs from the index's last.
    pub fn insert(
        &mut self,
        registration: Registration,
        variant: Option<u8>,
    ) -> Result<u32, NoFreeKey> {
        if self.handed_out == self.capacity {
            return Err(NoFreeKey { capacity: self.capacity });
        }
        // An index never used before comes first: that keeps freed keys unknown the longest, and
        // costs memory only up to the capacity.
        let never_used = self.slots.len().max(self.first_index as usize) as u32;
        let index = if never_used < self.first_index + self.capacity {
            self.slots.resize(never_used as usize + 1, Slot::default());
            never_used
        } else {
            self.free.pop_front().ok_or(NoFreeKey { capacity: self.capacity })?
        };
        let slot = &mut self.slots[index as usize];
        slot.variant = variant.unwrap_or(slot.variant.wrapping_add(1));
        slot.invalid = false;
        slot.registration = Some(registration);
        self.handed_out += 1;
        Ok(index << 8 | u32::from(slot.variant))
    }

    /// Gives `registration` a key that the device defines, such as a reserved lkey. Such a key
    /// counts toward no bound and is never removed.
    ///
    /// # Panics
    ///
    /// If the key's index is not below the table's first index.
    pub fn insert_reserved(&mut self, key: u32, registration: Registration) {
        let index = (key >> 8) as usize;
        assert!(index < self.first_index as usize, "key {key:#x} is not a reserved one");
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::default());
        }
        self.slots[index] =
            Slot { variant: key as u8, invalid: false, registration: Some(registration) };
    }

    /// The registration under `key`, if there is one that is valid.
    pub fn get(&self, key: u32) -> Option<&Registration> {
        let slot = self.slots.get((key >> 8) as usize)?;
        if slot.invalid || slot.variant != key as u8 {
            return None;
        }
        slot.registration.as_ref()
    }

    /// Takes `key`'s registration out and frees its index, also when it was invalidated. `None` if
    /// the key was not handed out.
    pub fn remove(&mut self, key: u32) -> Option<Registration> {
        let index = key >> 8;
        let slot = self.slots.get_mut(index as usize)?;
        if index < self.first_index || slot.variant != key as u8 {
            return None;
        }
        let registration = slot.registration.take()?;
        self.free.push_back(index);
        self.handed_out -= 1;
        Some(registration)
    }

    /// Takes every key back that was handed out.
    pub fn clear(&mut self) {
        let first = self.first_index as usize;
        for (index, slot) in self.slots.iter_mut().enumerate().skip(first) {
            if slot.registration.take().is_some() {
                self.free.push_back(index as u32);
            }
        }
        self.handed_out = 0;
    }

    /// Makes `key` refuse every access from now on. Its index stays taken until
    /// [`remove`](Self::remove).
    ///
    /// `remote`: a peer asks (SEND with invalidate), which the registration must allow.
    pub fn invalidate(
        &mut self,
        key: u32,
        protection_domain: u32,
        remote: bool,
    ) -> Result<(), Refusal> {
        let registration = self.in_domain(key, protection_domain)?;
        if remote && !registration.remote_invalidate {
            return Err(Refusal::Right { key, right: Right::RemoteInvalidate });
        }
        self.slots[(key >> 8) as usize].invalid = true;
        Ok(())
    }

    /// What is at an index, whatever its key's variant and whether it is valid: for those who change
    /// keys. Answers the key as it is now, whether it is valid, and the registration.
    pub fn at_index(&self, index: u32) -> Option<(u32, bool, &Registration)> {
        let slot = self.slots.get(index as usize)?;
        let registration = slot.registration.as_ref()?;
        Some((index << 8 | u32::from(slot.variant), !slot.invalid, registration))
    }

    /// Gives the index of a key another variant and validity, and changes its registration. Answers
    /// whether there is one.
    pub fn rewrite(
        &mut self,
        index: u32,
        variant: u8,
        valid: bool,
        change: impl FnOnce(&mut Registration),
    ) -> bool {
        let Some(slot) = self.slots.get_mut(index as usize) else { return false };
        let Some(registration) = slot.registration.as_mut() else { return false };
        change(registration);
        slot.variant = variant;
        slot.invalid = !valid;
        true
    }

    /// Changes `key`'s registration. Answers whether it is there and valid.
    pub fn change(&mut self, key: u32, change: impl FnOnce(&mut Registration)) -> bool {
        let slot = self.slots.get_mut((key >> 8) as usize);
        let slot = slot.filter(|slot| !slot.invalid && slot.variant == key as u8);
        slot.and_then(|slot| slot.registration.as_mut()).map(change).is_some()
    }

    /// Checks an access in hardware's order: key, protection domain, right, bounds. Zero bytes are
    /// checked like any others: that a message of no bytes checks no key (IBTA vol. 1, chapter 9, on
    /// zero-length RDMA) is the caller's knowledge.
    pub fn check(
        &self,
        key: u32,
        protection_domain: u32,
        right: Right,
        address: u64,
        length: u64,
    ) -> Result<&Registration, Refusal> {
        let registration = self.in_domain(key, protection_domain)?;
        if !registration.access.allows(right) {
            return Err(Refusal::Right { key, right });
        }
        let inside = address
            .checked_sub(registration.start)
            .and_then(|offset| registration.length.checked_sub(offset))
            .is_some_and(|rest| length <= rest);
        if !inside {
            return Err(Refusal::Bounds { key, address, length });
        }
        Ok(registration)
    }

    /// How many keys are handed out.
    pub fn len(&self) -> usize {
        self.handed_out as usize
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.handed_out == 0
    }

    fn in_domain(&self, key: u32, protection_domain: u32) -> Result<&Registration, Refusal> {
        let registration = self.get(key).ok_or(Refusal::UnknownKey { key })?;
        if registration.protection_domain != protection_domain {
            return Err(Refusal::ProtectionDomain {
                key,
                queue_pair: protection_domain,
                registration: registration.protection_domain,
            });
        }
        Ok(registration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration(start: u64, length: u64, access: Access) -> Registration {
        Registration {
            protection_domain: 7,
            access,
            start,
            length,
            pages: Pages::identity(start),
            relaxed: false,
            remote_invalidate: true,
        }
    }

    #[test]
    fn a_freed_index_comes_back_with_another_variant() {
        let mut keys = Keys::new(4, 3);
        let region = || registration(0, 1, Access::ALL);
        let first: Vec<u32> = (0..3).map(|_| keys.insert(region(), None).unwrap()).collect();
        assert_eq!(first.iter().map(|key| key >> 8).collect::<Vec<_>>(), [4, 5, 6]);
        assert_eq!(keys.insert(region(), None), Err(NoFreeKey { capacity: 3 }));
        assert!(keys.remove(first[1]).is_some());
        assert!(keys.remove(first[1]).is_none());
        let again = keys.insert(region(), None).unwrap();
        assert_eq!(again >> 8, 5);
        assert_ne!(again, first[1]);
        assert!(keys.get(first[1]).is_none());
        assert!(keys.remove(first[1]).is_none());
        assert!(keys.get(again).is_some());
        assert_eq!(keys.len(), 3);
    }

    #[test]
    fn an_index_is_reused_only_after_all_others() {
        let mut keys = Keys::new(0, 4);
        let region = || registration(0, 1, Access::ALL);
        let mut last = keys.insert(region(), None).unwrap();
        let mut seen = vec![last >> 8];
        for _ in 0..7 {
            keys.remove(last).unwrap();
            last = keys.insert(region(), None).unwrap();
            seen.push(last >> 8);
        }
        assert_eq!(seen, [0, 1, 2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn a_driver_may_choose_the_variant() {
        let mut keys = Keys::new(1, 10);
        let key = keys.insert(registration(0, 1, Access::ALL), Some(0xab)).unwrap();
        assert_eq!(key, 0x1ab);
    }

    #[test]
    fn refusals_come_in_hardware_s_order() {
        let mut keys = Keys::new(0, 10);
        let key = keys.insert(registration(0x1000, 0x100, Access::default()), None).unwrap();
        let wrong = key ^ 1;
        // Everything is wrong; then one thing less each time.
        let write = Right::RemoteWrite;
        assert_eq!(
            keys.check(wrong, 8, write, 0, 1).unwrap_err(),
            Refusal::UnknownKey { key: wrong }
        );
        assert_eq!(
            keys.check(key, 8, write, 0, 1).unwrap_err(),
            Refusal::ProtectionDomain { key, queue_pair: 8, registration: 7 }
        );
        assert_eq!(
            keys.check(key, 7, write, 0, 1).unwrap_err(),
            Refusal::Right { key, right: write }
        );
        let read = Right::LocalRead;
        assert_eq!(
            keys.check(key, 7, read, 0, 1).unwrap_err(),
            Refusal::Bounds { key, address: 0, length: 1 }
        );
        assert!(keys.check(key, 7, read, 0x1000, 1).is_ok());
    }

    #[test]
    fn bounds_hold_at_both_ends_and_across_overflow() {
        let mut keys = Keys::new(0, 10);
        let key = keys.insert(registration(0x1000, 0x100, Access::ALL), None).unwrap();
        let top = keys.insert(registration(u64::MAX - 0xf, 0x10, Access::ALL), None).unwrap();
        let all = keys.insert(registration(0, u64::MAX, Access::ALL), None).unwrap();
        let ok =
            |key, address, length| keys.check(key, 7, Right::RemoteRead, address, length).is_ok();
        assert!(ok(key, 0x1000, 0x100));
        assert!(ok(key, 0x10ff, 1));
        assert!(ok(key, 0x1100, 0));
        assert!(!ok(key, 0x1101, 0));
        assert!(!ok(key, 0xfff, 1));
        assert!(!ok(key, 0xfff, 2));
        assert!(!ok(key, 0x1000, 0x101));
        assert!(!ok(key, 0x10ff, 2));
        assert!(!ok(key, 0x1080, u64::MAX));
        assert!(ok(top, u64::MAX - 0xf, 0x10));
        assert!(ok(top, u64::MAX, 1));
        assert!(!ok(top, u64::MAX, 2));
        assert!(!ok(top, u64::MAX, u64::MAX));
        assert!(!ok(top, 0, 1));
        assert!(ok(all, 0, u64::MAX));
        assert!(ok(all, 1 << 63, 1 << 31));
    }

    #[test]
    fn each_right_is_needed_for_its_access() {
        let none = Access::default();
        let rights = [
            (Right::LocalWrite, Access { local_write: true, ..none }, 1),
            (Right::RemoteWrite, Access { remote_write: true, ..none }, 2),
            (Right::RemoteRead, Access { remote_read: true, ..none }, 4),
            (Right::RemoteAtomic, Access { remote_atomic: true, ..none }, 8),
        ];
        for (right, access, bits) in rights {
            assert_eq!(Access::from_verbs(bits), access);
            for (other, ..) in rights {
                assert_eq!(access.allows(other), other == right);
            }
            assert!(!none.allows(right));
            assert!(Access::ALL.allows(right));
        }
        assert!(none.allows(Right::LocalRead));
        assert!(!Access::ALL.allows(Right::RemoteInvalidate));
    }

    #[test]
    fn an_invalidated_key_is_unknown_but_its_index_stays_taken() {
        let mut keys = Keys::new(0, 1);
        let key = keys.insert(registration(0, 1, Access::ALL), None).unwrap();
        assert!(keys.invalidate(key, 8, true).is_err());
        assert!(keys.get(key).is_some());
        assert_eq!(keys.invalidate(key, 7, true), Ok(()));
        assert!(keys.get(key).is_none());
        assert_eq!(keys.invalidate(key, 7, true), Err(Refusal::UnknownKey { key }));
        assert!(keys.insert(registration(0, 1, Access::ALL), None).is_err());
        assert!(keys.remove(key).is_some());
        assert!(keys.insert(registration(0, 1, Access::ALL), None).is_ok());
    }

    #[test]
    fn a_peer_may_invalidate_only_where_it_is_allowed() {
        let mut keys = Keys::new(0, 1);
        let mut region = registration(0, 1, Access::ALL);
        region.remote_invalidate = false;
        let key = keys.insert(region, None).unwrap();
        let right = Right::RemoteInvalidate;
        assert_eq!(keys.invalidate(key, 7, true), Err(Refusal::Right { key, right }));
        assert_eq!(keys.invalidate(key, 7, false), Ok(()));
    }

    #[test]
    fn reserved_keys_lie_below_the_others_and_stay() {
        let mut keys = Keys::new(4, 2);
        keys.insert_reserved(0x300, registration(0, u64::MAX, Access::ALL));
        assert!(keys.get(0x300).is_some());
        assert!(keys.remove(0x300).is_none());
        let key = keys.insert(registration(0, 1, Access::ALL), None).unwrap();
        assert_eq!(key >> 8, 4);
        assert_eq!(keys.len(), 1);
    }

    #[test]
    fn a_million_keys_are_all_different_and_found() {
        let mut keys = Keys::new(0, 1_000_000);
        let mut last = None;
        for start in 0..1_000_000 {
            let key = keys.insert(registration(start, 1, Access::ALL), None).unwrap();
            assert!(last.replace(key) < Some(key));
            assert_eq!(keys.get(key).map(|found| found.start), Some(start));
        }
        assert_eq!(keys.len(), 1_000_000);
    }
}
