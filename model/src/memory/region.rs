//! Accesses of queue pairs to memory: checked by key, then copied.

use super::translate::translate;
use super::{AddressSpace, Buffer, Fault, Keys, Payload, Refusal, Right, Segment};
use smallvec::SmallVec;
use std::sync::Arc;

/// One entry of a scatter/gather list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The first byte's address, as the registration counts.
    pub address: u64,
    /// The bytes, 0 to 2^31.
    pub length: u32,
    /// The key.
    pub lkey: u32,
}

/// A scatter/gather list.
pub type List = SmallVec<[Entry; 4]>;

/// The memory of one device: where it is, and the keys to it.
pub struct Memory {
    /// The keys handed out.
    pub keys: Keys,
    space: Arc<dyn AddressSpace>,
}

impl Memory {
    /// A device's memory.
    pub fn new(space: Arc<dyn AddressSpace>, keys: Keys) -> Self {
        Memory { keys, space }
    }

    /// The address space, for what a device reaches without keys: rings and doorbell records.
    pub fn space(&self) -> &dyn AddressSpace {
        &*self.space
    }

    /// The `len` bytes at `offset` of `list`, checked for reading by this side.
    pub fn gather(
        &self,
        protection_domain: u32,
        list: &[Entry],
        offset: u64,
        len: usize,
    ) -> Result<Payload, Refusal> {
        if let Some(payload) = self.refer(protection_domain, list, offset, len)? {
            return Ok(payload);
        }
        let right = Right::LocalRead;
        let buffer = Buffer::filled(len, |bytes| {
            self.in_list(protection_domain, right, list, offset, len, |address, done, len| {
                self.space.read(address, &mut bytes[done..done + len])
            })
        })?;
        Ok(Payload::Bytes(buffer))
    }

    /// The same without a copy: `None` if the bytes lie in more pieces than a payload refers to.
    pub fn refer(
        &self,
        protection_domain: u32,
        list: &[Entry],
        offset: u64,
        len: usize,
    ) -> Result<Option<Payload>, Refusal> {
        let right = Right::LocalRead;
        let mut segments = Segments::default();
        self.in_list(protection_domain, right, list, offset, len, |address, _, len| {
            self.space.probe(address, len)?;
            segments.push(address, len);
            Ok(())
        })?;
        Ok(segments.payload(&self.space))
    }

    /// Copies `payload` to `offset` of `list`, checked for writing by this side.
    pub fn scatter(
        &self,
        protection_domain: u32,
        list: &[Entry],
        offset: u64,
        payload: &Payload,
    ) -> Result<(), Refusal> {
        let len = payload.len();
        self.in_list(
            protection_domain,
            Right::LocalWrite,
            list,
            offset,
            len,
            |address, done, len| payload.copy_to(done, len, &*self.space, address),
        )
    }

    /// The `len` bytes at `address` of `key`, checked for reading by the peer. No bytes check
    /// nothing.
    pub fn read_remote(
        &self,
        protection_domain: u32,
        key: u32,
        address: u64,
        len: usize,
    ) -> Result<Payload, Refusal> {
        if let Some(payload) = self.refer_remote(protection_domain, key, address, len)? {
            return Ok(payload);
        }
        let right = Right::RemoteRead;
        let registration = self.keys.check(key, protection_domain, right, address, len as u64)?;
        let buffer = Buffer::filled(len, |bytes| {
            translate(&self.keys, registration, right, address, len, |address, done, len| {
                self.space.read(address, &mut bytes[done..done + len])
            })
        })?;
        Ok(Payload::Bytes(buffer))
    }

    /// The same without a copy: `None` if the bytes lie in more pieces than a payload refers to.
    pub fn refer_remote(
        &self,
        protection_domain: u32,
        key: u32,
        address: u64,
        len: usize,
    ) -> Result<Option<Payload>, Refusal> {
        if len == 0 {
            return Ok(Some(Payload::Empty));
        }
        let right = Right::RemoteRead;
        let registration = self.keys.check(key, protection_domain, right, address, len as u64)?;
        let mut segments = Segments::default();
        translate(&self.keys, registration, right, address, len, |address, _, len| {
            self.space.probe(address, len)?;
            segments.push(address, len);
            Ok(())
        })?;
        Ok(segments.payload(&self.space))
    }

    /// Copies `payload` to `address` of `key`, checked for writing by the peer. No bytes check
    /// nothing.
    pub fn write_remote(
        &self,
        protection_domain: u32,
        key: u32,
        address: u64,
        payload: &Payload,
    ) -> Result<(), Refusal> {
        let len = payload.len();
        if len == 0 {
            return Ok(());
        }
        let right = Right::RemoteWrite;
        let registration = self.keys.check(key, protection_domain, right, address, len as u64)?;
        translate(&self.keys, registration, right, address, len, |address, done, len| {
            payload.copy_to(done, len, &*self.space, address)
        })
    }

    /// The peer's fetch-and-add on the 8 bytes at `address` of `key`: what they were. The bytes are
    /// a number in this machine's byte order.
    pub fn fetch_add(
        &self,
        protection_domain: u32,
        key: u32,
        address: u64,
        add: u64,
    ) -> Result<u64, Refusal> {
        let address = self.atomic(protection_domain, key, address)?;
        Ok(self.space.fetch_add(address, add)?)
    }

    /// The peer's compare-and-swap on the 8 bytes at `address` of `key`: what they were. The bytes
    /// are a number in this machine's byte order.
    pub fn compare_swap(
        &self,
        protection_domain: u32,
        key: u32,
        address: u64,
        compare: u64,
        swap: u64,
    ) -> Result<u64, Refusal> {
        let address = self.atomic(protection_domain, key, address)?;
        Ok(self.space.compare_swap(address, compare, swap)?)
    }

    /// The device address of an atomic's 8 bytes.
    fn atomic(&self, protection_domain: u32, key: u32, address: u64) -> Result<u64, Refusal> {
        if !address.is_multiple_of(8) {
            return Err(Refusal::Misaligned { address });
        }
        let right = Right::RemoteAtomic;
        let registration = self.keys.check(key, protection_domain, right, address, 8)?;
        let mut device_address = 0;
        translate(&self.keys, registration, right, address, 8, |address, done, _| {
            // Registrations of bytes that are not aligned like their addresses may cut the word in
            // two; the first piece's address is then not a multiple of 8, which faults.
            if done == 0 {
                device_address = address;
            }
            Ok(())
        })?;
        Ok(device_address)
    }

    /// Checks `len` bytes from `offset` of `list` on, and calls `each` with the pieces' device
    /// addresses, how far in they begin, and their lengths.
    fn in_list(
        &self,
        protection_domain: u32,
        right: Right,
        list: &[Entry],
        offset: u64,
        len: usize,
        mut each: impl FnMut(u64, usize, usize) -> Result<(), Fault>,
    ) -> Result<(), Refusal> {
        let mut skip = offset;
        let mut done = 0;
        for entry in list {
            let length = u64::from(entry.length);
            if skip >= length {
                skip -= length;
                continue;
            }
            let here = (length - skip).min((len - done) as u64);
            if here == 0 {
                break;
            }
            let key = entry.lkey;
            let bounds = Refusal::Bounds { key, address: entry.address, length };
            let address = entry.address.checked_add(skip).ok_or(bounds)?;
            let registration = self.keys.check(key, protection_domain, right, address, here)?;
            translate(
                &self.keys,
                registration,
                right,
                address,
                here as usize,
                |address, within, len| each(address, done + within, len),
            )?;
            done += here as usize;
            skip = 0;
        }
        if done < len {
            let capacity = list.iter().map(|entry| u64::from(entry.length)).sum();
            return Err(Refusal::ListTooShort { capacity, needed: offset + len as u64 });
        }
        Ok(())
    }
}

/// Pieces of memory, joined where they touch, as many as a payload refers to.
struct Segments {
    list: [Segment; Payload::SEGMENTS],
    used: usize,
    /// There were not more.
    fit: bool,
}

impl Default for Segments {
    fn default() -> Self {
        Segments { list: [Segment::default(); Payload::SEGMENTS], used: 0, fit: true }
    }
}

impl Segments {
    fn push(&mut self, address: u64, len: usize) {
        let len = len as u32;
        if let Some(last) = self.list[..self.used].last_mut()
            && last.address.checked_add(last.len.into()) == Some(address)
        {
            last.len += len;
        } else if let Some(next) = self.list.get_mut(self.used) {
            *next = Segment { address, len };
            self.used += 1;
        } else {
            self.fit = false;
        }
    }

    fn payload(self, space: &Arc<dyn AddressSpace>) -> Option<Payload> {
        match self.used {
            _ if !self.fit => None,
            0 => Some(Payload::Empty),
            _ => Some(Payload::Memory { space: space.clone(), segments: self.list }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Access, Pages, Registration, TestMemory};

    const DOMAIN: u32 = 3;

    /// 64 KiB at 0x10000, each byte of which says where it is.
    fn memory() -> Memory {
        let mut space = TestMemory::new();
        space.add(0x10000, 0x10000);
        let space: Arc<dyn AddressSpace> = Arc::new(space);
        space.write(0x10000, &(0..0x10000u32).map(content).collect::<Vec<_>>()).unwrap();
        Memory::new(space, Keys::new(0, 100))
    }

    fn content(at: u32) -> u8 {
        (at ^ ((at >> 8) * 3)) as u8
    }

    fn register(memory: &mut Memory, start: u64, length: u64, pages: Pages) -> u32 {
        let registration = Registration {
            protection_domain: DOMAIN,
            access: Access::ALL,
            start,
            length,
            pages,
            relaxed: false,
            remote_invalidate: false,
        };
        memory.keys.insert(registration, None).unwrap()
    }

    /// Pages of 256 bytes in an order of their own; the first byte is 0x20 into the first page.
    fn shuffled(memory: &mut Memory) -> u32 {
        let addresses = [0x10500u64, 0x10100, 0x10200, 0x1ff00].into();
        register(memory, 0x7020, 0x380, Pages::List { log_size: 8, addresses })
    }

    fn bytes(payload: &Payload) -> Vec<u8> {
        let mut bytes = vec![0; payload.len()];
        payload.read(0, &mut bytes).unwrap();
        bytes
    }

    fn contents(at: std::ops::Range<u32>) -> Vec<u8> {
        at.map(content).collect()
    }

    #[test]
    fn a_page_list_is_followed_from_the_offset_of_the_first_byte() {
        let mut memory = memory();
        let key = shuffled(&mut memory);
        let payload = memory.read_remote(DOMAIN, key, 0x7020, 0x380).unwrap();
        // The second and third pages touch: without the fourth, two pieces.
        let part = memory.read_remote(DOMAIN, key, 0x7020, 0x2e0).unwrap();
        let Payload::Memory { segments, .. } = &part else { panic!("copied") };
        assert_eq!(segments.map(|segment| segment.len), [0xe0, 0x200]);
        let expected =
            [contents(0x520..0x600), contents(0x100..0x300), contents(0xff00..0xffa0)].concat();
        assert_eq!(bytes(&payload), expected);
        let contiguous = (0..8).map(|at| 0x10000 + at * 0x100).collect();
        let pages = Pages::List { log_size: 8, addresses: contiguous };
        let flat = register(&mut memory, 0, 0x800, pages);
        let one = memory.read_remote(DOMAIN, flat, 0x10, 0x7e0).unwrap();
        let Payload::Memory { segments, .. } = &one else { panic!("copied") };
        assert_eq!(segments.map(|segment| segment.len), [0x7e0, 0]);
        for (start, len) in [(0, 1), (0xdf, 2), (0xe0, 0x100), (0x1ff, 0x181), (0x37f, 1)] {
            let part = memory.read_remote(DOMAIN, key, 0x7020 + start, len).unwrap();
            assert_eq!(bytes(&part), expected[start as usize..][..len]);
        }
    }

    #[test]
    fn a_peer_s_write_lands_on_the_pages_and_nowhere_else() {
        let mut memory = memory();
        let key = shuffled(&mut memory);
        let mut expected = contents(0..0x10000);
        memory.write_remote(DOMAIN, key, 0x70f0, &Payload::copy_of(&[9; 0x120])).unwrap();
        expected[0x5f0..0x600].fill(9);
        expected[0x100..0x210].fill(9);
        let mut all = vec![0; 0x10000];
        memory.space().read(0x10000, &mut all).unwrap();
        assert!(all == expected);
    }

    #[test]
    fn a_list_is_gathered_from_any_offset() {
        let mut memory = memory();
        let flat = register(&mut memory, 0, 0x10000, Pages::Flat { device_start: 0x10000 });
        let paged = shuffled(&mut memory);
        let entry = |address, length, lkey| Entry { address, length, lkey };
        let list = [
            entry(100, 50, flat),
            entry(0xdead, 0, 0xbad),
            entry(0x7100, 0x40, paged),
            entry(0, 1, flat),
            entry(0x8000, 70, flat),
            entry(1, 30, flat),
        ];
        let expected = [
            contents(100..150),
            contents(0x100..0x140),
            contents(0..1),
            contents(0x8000..0x8000 + 70),
            contents(1..31),
        ]
        .concat();
        for offset in 0..=expected.len() {
            for len in [0, 1, 3, 60, expected.len()] {
                let len = len.min(expected.len() - offset);
                let payload = memory.gather(DOMAIN, &list, offset as u64, len).unwrap();
                assert_eq!(bytes(&payload), expected[offset..offset + len]);
            }
        }
        // More pieces than a payload refers to are copied.
        let whole = memory.gather(DOMAIN, &list, 0, expected.len()).unwrap();
        assert!(matches!(whole, Payload::Bytes(_)));
        let end = expected.len() as u64;
        assert_eq!(
            memory.gather(DOMAIN, &list, end - 1, 2).err(),
            Some(Refusal::ListTooShort { capacity: end, needed: end + 1 })
        );
        assert!(memory.gather(DOMAIN, &[], 0, 0).unwrap().is_empty());
        assert!(memory.gather(DOMAIN, &[], 0, 1).is_err());
    }

    #[test]
    fn a_list_is_scattered_to_from_any_offset() {
        let mut memory = memory();
        let flat = register(&mut memory, 0, 0x10000, Pages::Flat { device_start: 0x10000 });
        let entry = |address, length| Entry { address, length, lkey: flat };
        let list = [entry(10, 5), entry(0, 0), entry(2, 3), entry(30, 8)];
        let places: Vec<usize> = (10..15).chain(2..5).chain(30..38).collect();
        for offset in 0..16 {
            for len in 0..=16 - offset {
                memory.space().write(0x10000, &[0; 40]).unwrap();
                let data: Vec<u8> = (1..=len as u8).collect();
                memory.scatter(DOMAIN, &list, offset as u64, &Payload::copy_of(&data)).unwrap();
                let mut expected = [0; 40];
                for (byte, place) in data.iter().zip(&places[offset..]) {
                    expected[*place] = *byte;
                }
                let mut all = [0; 40];
                memory.space().read(0x10000, &mut all).unwrap();
                assert_eq!(all, expected);
            }
        }
    }

    #[test]
    fn only_the_bytes_of_the_access_are_checked() {
        let mut memory = memory();
        let key = register(&mut memory, 0, 0x100, Pages::Flat { device_start: 0x10000 });
        let list = [
            Entry { address: 0, length: 0x200, lkey: key },
            Entry { address: u64::MAX, length: 8, lkey: key },
        ];
        assert!(memory.gather(DOMAIN, &list, 0, 0x100).is_ok());
        assert!(matches!(memory.gather(DOMAIN, &list, 0, 0x101), Err(Refusal::Bounds { .. })));
        assert!(matches!(memory.gather(DOMAIN, &list, 0x201, 1), Err(Refusal::Bounds { .. })));
        assert!(memory.gather(DOMAIN + 1, &list, 0, 1).is_err());
    }

    #[test]
    fn each_access_asks_for_its_own_right() {
        let mut memory = memory();
        let key = register(&mut memory, 0, 0x100, Pages::Flat { device_start: 0x10000 });
        let mut without = |change: fn(&mut Access)| {
            let mut registration = memory.keys.get(key).unwrap().clone();
            change(&mut registration.access);
            memory.keys.insert(registration, None).unwrap()
        };
        let no_local_write = without(|access| access.local_write = false);
        let no_write = without(|access| access.remote_write = false);
        let no_read = without(|access| access.remote_read = false);
        let no_atomic = without(|access| access.remote_atomic = false);
        let byte = Payload::copy_of(&[1]);
        for key in [key, no_local_write, no_write, no_read, no_atomic] {
            let list = [Entry { address: 0, length: 1, lkey: key }];
            assert!(memory.gather(DOMAIN, &list, 0, 1).is_ok());
            assert_eq!(memory.scatter(DOMAIN, &list, 0, &byte).is_ok(), key != no_local_write);
            assert_eq!(memory.write_remote(DOMAIN, key, 0, &byte).is_ok(), key != no_write);
            assert_eq!(memory.read_remote(DOMAIN, key, 0, 1).is_ok(), key != no_read);
            assert_eq!(memory.fetch_add(DOMAIN, key, 0, 1).is_ok(), key != no_atomic);
            assert_eq!(memory.compare_swap(DOMAIN, key, 0, 0, 1).is_ok(), key != no_atomic);
        }
    }

    #[test]
    fn no_bytes_check_no_key() {
        let memory = memory();
        assert!(memory.read_remote(DOMAIN, 0xbad, u64::MAX, 0).is_ok());
        assert!(memory.write_remote(DOMAIN, 0xbad, u64::MAX, &Payload::Empty).is_ok());
    }

    #[test]
    fn pages_without_memory_fault() {
        let mut memory = memory();
        let outside = register(&mut memory, 0, 0x100, Pages::Flat { device_start: 0x1fff0 });
        let short = register(
            &mut memory,
            0,
            0x2000,
            Pages::List { log_size: 12, addresses: [0x10000].into() },
        );
        let odd = register(
            &mut memory,
            0,
            0x1000,
            Pages::List { log_size: 64, addresses: [0x10000].into() },
        );
        for (key, address, good) in [(outside, 0xc, 4), (short, 0xffc, 4)] {
            assert!(memory.read_remote(DOMAIN, key, address, good).is_ok());
            assert!(matches!(
                memory.read_remote(DOMAIN, key, address, good + 1),
                Err(Refusal::Fault(_))
            ));
            let list = [Entry { address, length: 8, lkey: key }];
            assert!(memory.gather(DOMAIN, &list, 0, good).is_ok());
            assert!(matches!(memory.gather(DOMAIN, &list, 0, good + 1), Err(Refusal::Fault(_))));
            let payload = Payload::copy_of(&vec![0; good + 1]);
            assert!(matches!(
                memory.write_remote(DOMAIN, key, address, &payload),
                Err(Refusal::Fault(_))
            ));
        }
        assert!(matches!(memory.read_remote(DOMAIN, odd, 0, 1), Err(Refusal::Fault(_))));
    }

    #[test]
    fn atomics_reach_their_word_through_a_page_list() {
        let mut memory = memory();
        let key = shuffled(&mut memory);
        memory.space().write(0x10100, &5u64.to_ne_bytes()).unwrap();
        assert_eq!(memory.fetch_add(DOMAIN, key, 0x7100, 2), Ok(5));
        assert_eq!(memory.compare_swap(DOMAIN, key, 0x7100, 7, 99), Ok(7));
        assert_eq!(memory.compare_swap(DOMAIN, key, 0x7100, 7, 1), Ok(99));
        for address in 0x7101..0x7108 {
            assert_eq!(
                memory.fetch_add(DOMAIN, key, address, 1),
                Err(Refusal::Misaligned { address })
            );
        }
        assert!(matches!(memory.fetch_add(DOMAIN, key, 0x73a0, 1), Err(Refusal::Bounds { .. })));
    }
}
