//! Ethernet: frames out of transmit rings, and into receive rings.
//!
//! Entries are those of Linux's `bnxt.h` (`struct tx_bd`, `tx_bd_ext`, `tx_cmp`, `rx_bd`, `rx_cmp`,
//! `rx_cmp_ext`), 16 bytes each.

use super::nic::Netxtreme;
use super::ring::{ChannelRing, ENTRY, Place};
use super::statistics::Moved;
use crate::fabric::{Address, Fabric, Message, frame};
use doorbell::bnxt::abi::doorbell::DoorbellFields;
use doorbell::bnxt::abi::firmware::receive::rx_mask;
use doorbell::bnxt::abi::firmware::ring::ring_type;
use std::collections::BTreeMap;

/// Which frames come in, and where to.
#[derive(Default)]
pub(super) struct Frames {
    pub(super) interfaces: BTreeMap<u32, Interface>,
    pub(super) filters: BTreeMap<u32, Filter>,
    /// Contexts of receive-side scaling, which is not done.
    pub(super) scaling: BTreeMap<u32, ()>,
}

/// A VNIC.
#[derive(Default)]
pub(super) struct Interface {
    pub(super) ring: Option<u16>,
    pub(super) completions: Option<u16>,
    pub(super) mask: u32,
    /// Multicast addresses.
    pub(super) groups: Vec<[u8; 6]>,
}

/// A filter by Ethernet address.
pub(super) struct Filter {
    pub(super) address: [u8; 6],
    pub(super) mask: [u8; 6],
    pub(super) interface: u32,
}

impl Filter {
    fn takes(&self, address: [u8; 6]) -> bool {
        let bits = address.iter().zip(self.address).zip(self.mask);
        bits.into_iter().all(|((&is, should), mask)| is & mask == should & mask)
    }
}

/// Fields of entries.
mod entry {
    /// The kind, in the low 6 bits of the first word.
    pub(super) const KIND: u32 = 0x3f;
    pub(super) const SHORT_SEND: u32 = 0x00;
    pub(super) const LONG_SEND: u32 = 0x10;
    /// The last entry of a frame; and one without a completion.
    pub(super) const LAST: u32 = 1 << 6;
    pub(super) const SILENT: u32 = 1 << 7;
    /// Of a long entry's second half.
    pub(super) const TRANSPORT_CHECKSUM: u32 = 1 << 0;
    pub(super) const NETWORK_CHECKSUM: u32 = 1 << 1;
    pub(super) const CUT: u32 = 1 << 5;
    pub(super) const INSERT_TAG: u32 = 1 << 28;
    /// Completions.
    pub(super) const SENT: u32 = 0;
    pub(super) const RECEIVED: u32 = 17;
    pub(super) const REQUEST_DONE: u16 = 0x20;
}

/// The most bytes of a frame before it is cut.
const MOST_BYTES: usize = 1 << 17;
/// The most entries of a frame.
const MOST_ENTRIES: usize = 64;
const BROADCAST: [u8; 6] = [0xff; 6];

/// The 32-bit word `number` of an entry.
fn word(entry: &[u8; ENTRY as usize], number: usize) -> u32 {
    let bytes = entry.as_chunks::<4>().0.get(number).copied().unwrap_or_default();
    u32::from_le_bytes(bytes)
}

fn entry_of(words: [u32; 4]) -> [u8; ENTRY as usize] {
    let mut entry = [0; ENTRY as usize];
    for (to, word) in entry.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    entry
}

/// What a transmit ring's next entries say.
struct Outgoing {
    bytes: Vec<u8>,
    /// What the completion repeats.
    opaque: u32,
    silent: bool,
    /// The words of the second half, if there is one.
    offload: Option<[u32; 4]>,
}

impl Netxtreme {
    /// A doorbell of a transmit ring.
    pub(super) fn ring_frames_out(
        &mut self,
        doorbell: DoorbellFields,
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> bool {
        let number = doorbell.xid() as u16;
        if !self.move_driver(number, ring_type::TX, doorbell) {
            return false;
        }
        while let Some(outgoing) = self.next_outgoing(number) {
            let completions = self.rings.get(&number).map(|ring| ring.completions);
            match outgoing {
                Ok(outgoing) => {
                    self.send(number, &outgoing, now, fabric);
                    if !outgoing.silent
                        && let Some(completions) = completions
                    {
                        let sent = entry_of([entry::SENT, outgoing.opaque, 0, 0]);
                        self.complete_frames(completions, &[sent]);
                    }
                }
                Err(why) => {
                    self.counters.malformed_entries += 1;
                    self.log.note(format_args!("transmit ring {number:#x}: {why}"));
                }
            }
        }
        true
    }

    /// The driver's place in a ring of this kind. Answers whether there is one.
    fn move_driver(&mut self, number: u16, kind: u8, doorbell: DoorbellFields) -> bool {
        let Some(ring) = self.rings.get_mut(&number).filter(|ring| ring.is(kind)) else {
            return false;
        };
        let Some(place) = Place::of(doorbell, ring.entries) else { return false };
        if place.since(ring.own, ring.entries).is_none() {
            self.counters.dropped_doorbells += 1;
            self.log.note(format_args!(
                "ring {number:#x}: {doorbell:?} is not a place that it can be at"
            ));
            return true;
        }
        ring.driver = place;
        true
    }

    /// The next frame of a transmit ring: all of its entries are there.
    fn next_outgoing(&mut self, number: u16) -> Option<Result<Outgoing, String>> {
        let ring = self.rings.get_mut(&number)?;
        let space = self.memory.space();
        let (_, first) = ring.read(space)?;
        self.counters.send_entries += 1;
        let kind = word(&first, 0) & entry::KIND;
        let offload = match kind {
            entry::LONG_SEND => match ring.read(space) {
                Some((_, second)) => Some(std::array::from_fn(|number| word(&second, number))),
                None => return Some(Err("half an entry was posted".into())),
            },
            entry::SHORT_SEND => None,
            kind => return Some(Err(format!("an entry of kind {kind:#x}"))),
        };
        let mut outgoing = Outgoing {
            bytes: Vec::new(),
            opaque: word(&first, 1),
            silent: word(&first, 0) & entry::SILENT != 0,
            offload,
        };
        let mut piece = first;
        for _ in 0..MOST_ENTRIES {
            let flags = word(&piece, 0);
            let length = (flags >> 16) as usize;
            let address = u64::from(word(&piece, 2)) | u64::from(word(&piece, 3)) << 32;
            let start = outgoing.bytes.len();
            if start + length > MOST_BYTES {
                return Some(Err(format!("a frame of more than {MOST_BYTES} bytes")));
            }
            outgoing.bytes.resize(start + length, 0);
            if let Err(fault) = space.read(address, &mut outgoing.bytes[start..]) {
                return Some(Err(format!("lost access: {fault}")));
            }
            if flags & entry::LAST != 0 {
                return Some(Ok(outgoing));
            }
            match ring.read(space) {
                Some((_, next)) => piece = next,
                None => return Some(Err("a part of a frame was posted".into())),
            }
        }
        Some(Err(format!("a frame of more than {MOST_ENTRIES} entries")))
    }

    fn send(&mut self, ring: u16, outgoing: &Outgoing, now: u64, fabric: &mut dyn Fabric) {
        let [flags, most, _, tag] = outgoing.offload.unwrap_or_default();
        let cut = flags & entry::CUT != 0;
        // In units of 2 bytes.
        let headers = 2 * ((flags >> 16) & 0xff) as usize;
        let whole = outgoing.bytes.clone();
        let frames = match cut {
            false => vec![whole],
            true => frame::segments(&whole, headers, (most & 0x7fff) as usize)
                .unwrap_or_else(|| vec![whole]),
        };
        for mut bytes in frames {
            if tag & entry::INSERT_TAG != 0 {
                frame::insert_tag(&mut bytes, tag as u16);
            }
            let network = cut || flags & entry::NETWORK_CHECKSUM != 0;
            let transport = cut || flags & entry::TRANSPORT_CHECKSUM != 0;
            let _ = frame::fill_checksums(&mut bytes, network, transport);
            let Some((to, from)) = frame::addresses(&bytes).filter(|_| self.is_link_up()) else {
                self.counters.frames_dropped += 1;
                continue;
            };
            self.counters.frames_sent += 1;
            self.count_frame(ring, Moved::Sent, &bytes);
            let message = Message::Frame(bytes.into());
            fabric.send_message(now, self.port, Address::Mac(from), Address::Mac(to), message);
        }
    }

    /// A doorbell of a receive ring, or of one for further buffers.
    pub(super) fn ring_buffers(&mut self, doorbell: DoorbellFields) -> bool {
        let number = doorbell.xid() as u16;
        self.move_driver(number, ring_type::RX, doorbell)
            || self.move_driver(number, ring_type::RX_AGG, doorbell)
    }

    /// A doorbell of a completion ring.
    pub(super) fn ring_frame_completions(&mut self, doorbell: DoorbellFields, arm: bool) -> bool {
        let number = doorbell.xid() as u16;
        let Some(ring) = self.rings.get_mut(&number).filter(|ring| ring.is(ring_type::L2_CMPL))
        else {
            return false;
        };
        let Some(place) = Place::of(doorbell, ring.entries) else { return false };
        if ring.own.since(place, ring.entries).is_none() {
            self.counters.dropped_doorbells += 1;
            self.log.note(format_args!(
                "completion ring {number:#x}: {doorbell:?} is not a place that it can be at"
            ));
            return true;
        }
        ring.driver = place;
        if arm && doorbell.toggle() != ring.toggle {
            self.counters.dropped_doorbells += 1;
            self.log.note(format_args!(
                "completion ring {number:#x}: an arm with toggle {}, not {}",
                doorbell.toggle(),
                ring.toggle
            ));
        } else if arm {
            ring.armed = true;
            if ring.own != ring.driver {
                self.announce(number);
            }
        }
        true
    }

    /// Notifies a completion ring if it is armed.
    fn announce(&mut self, number: u16) {
        let Some(ring) = self.rings.get_mut(&number) else { return };
        if !std::mem::take(&mut ring.armed) {
            return;
        }
        ring.toggle = (ring.toggle + 1) & 3;
        let (notified, handle, toggle) = (ring.notified, ring.handle, ring.toggle);
        self.notify_completion(notified, handle, toggle);
    }

    /// Writes completions, all or none. Answers whether they are there.
    fn complete_frames(&mut self, number: u16, entries: &[[u8; ENTRY as usize]]) -> bool {
        let rings = &mut self.rings;
        let Some(ring) = rings.get_mut(&number).filter(|ring| ring.is(ring_type::L2_CMPL)) else {
            return false;
        };
        let held = ring.own.since(ring.driver, ring.entries).unwrap_or(ring.entries);
        if (ring.entries - held) < entries.len() as u32 {
            self.counters.overruns += 1;
            self.log.note(format_args!("completion ring {number:#x} is full"));
            return false;
        }
        for entry in entries {
            if let Err(fault) = ring.write(self.memory.space(), *entry) {
                self.log.note(format_args!("lost access: completion ring {number:#x}: {fault}"));
                return false;
            }
        }
        self.counters.completions += 1;
        self.announce(number);
        true
    }

    /// Tells a completion ring that a request is answered.
    pub(super) fn tell_done(&mut self, number: u16, sequence: u16) {
        let first = u32::from(entry::REQUEST_DONE) | u32::from(sequence) << 16;
        self.complete_frames(number, &[entry_of([first, 0, 0, 0])]);
    }

    /// The VNIC that a frame goes to.
    fn interface_of(&self, to: [u8; 6]) -> Option<&Interface> {
        let frames = &self.frames;
        let filter = frames.filters.values().find(|filter| filter.takes(to));
        if let Some(filter) = filter {
            return frames.interfaces.get(&filter.interface);
        }
        let group = to[0] & 1 != 0;
        frames.interfaces.values().find(|interface| {
            let mask = interface.mask;
            mask & rx_mask::PROMISCUOUS != 0
                || to == BROADCAST && mask & rx_mask::BCAST != 0
                || group && mask & rx_mask::ALL_MCAST != 0
                || group && mask & rx_mask::MCAST != 0 && interface.groups.contains(&to)
        })
    }

    /// A frame came in.
    pub(super) fn take_frame(&mut self, bytes: &[u8]) {
        let place = frame::addresses(bytes)
            .and_then(|(to, _)| self.interface_of(to))
            .and_then(|interface| interface.ring.zip(interface.completions));
        let taken = place.is_some_and(|(ring, completions)| {
            self.put_frame(bytes, ring, completions).is_some_and(|taken| taken)
        });
        let moved = match taken {
            true => {
                self.counters.frames_received += 1;
                Moved::Received
            }
            false => {
                self.counters.frames_dropped += 1;
                Moved::Discarded
            }
        };
        if let Some((ring, _)) = place {
            self.count_frame(ring, moved, bytes);
        }
    }

    /// Counts a frame of a ring, in the context that the driver has named for it.
    fn count_frame(&mut self, ring: u16, moved: Moved, bytes: &[u8]) {
        let context = self.rings.get(&ring).map(|ring| ring.statistics);
        let context = context.and_then(|number| self.statistics.get_mut(&number));
        let (Some(context), Some((to, _))) = (context, frame::addresses(bytes)) else { return };
        if let Err(fault) = context.count(self.memory.space(), moved, to, bytes.len()) {
            self.log.note(format_args!("lost access: a statistics context: {fault}"));
        }
    }

    fn put_frame(&mut self, bytes: &[u8], number: u16, completions: u16) -> Option<bool> {
        let rings = &mut self.rings;
        let ring: &mut ChannelRing =
            rings.get_mut(&number).filter(|ring| ring.is(ring_type::RX))?;
        let space = self.memory.space();
        if ring.posted() == 0 || bytes.len() > ring.buffer_bytes as usize {
            return Some(false);
        }
        let (_, buffer) = ring.read(space)?;
        self.counters.receive_entries += 1;
        let address = u64::from(word(&buffer, 2)) | u64::from(word(&buffer, 3)) << 32;
        if let Err(fault) = space.write(address, bytes) {
            self.log.note(format_args!("lost access: a receive buffer: {fault}"));
            return Some(false);
        }
        let first = entry::RECEIVED | (bytes.len() as u32) << 16;
        let pair = [entry_of([first, word(&buffer, 1), 0, 0]), entry_of([0; 4])];
        Some(self.complete_frames(completions, &pair))
    }
}
