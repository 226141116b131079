//! Which queues a frame that comes in goes to: flow tables, and the interfaces and tables of queues
//! behind them.
//!
//! Tables hold entries, by index, in groups that say which bits of the headers their entries look at.
//! The first entry that matches says what becomes of the frame: dropped, on to another table, or to
//! interfaces (TIR). An interface names a queue, or a table of queues (RQT) of which a hash picks one.

use super::firmware::{Field, hash_fields, headers as field};
use super::{Refused, headers};
use std::collections::BTreeMap;

/// Flow tables, and what they lead to.
#[derive(Default)]
pub struct Steering {
    root: Option<u32>,
    tables: BTreeMap<u32, FlowTable>,
    interfaces: BTreeMap<u32, Interface>,
    queues: BTreeMap<u32, Vec<u32>>,
    counters: BTreeMap<u32, FlowCounter>,
}

/// What matched a counter's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounter {
    /// Frames.
    pub packets: u64,
    /// Their bytes.
    pub octets: u64,
}

/// A flow table.
#[derive(Default)]
struct FlowTable {
    /// Where frames go that nothing matches; they are dropped if it is nowhere.
    miss: Option<u32>,
    /// The bytes that the entries of each group look at, and which bits of them.
    groups: BTreeMap<u32, Box<[(usize, u8)]>>,
    entries: BTreeMap<u32, FlowEntry>,
}

/// An entry of a flow table.
#[derive(Clone, Debug)]
pub struct FlowEntry {
    /// Its group.
    pub group: u32,
    /// What the headers have to be, where its group looks.
    pub value: Box<[u8]>,
    /// Where the frame goes; nowhere if there is nothing.
    pub destinations: Vec<Destination>,
    /// What counts it.
    pub counters: Vec<u32>,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To another table.
    Table(u32),
    /// To an interface.
    Interface(u32),
}

/// An interface: what a frame goes through to its queue.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// The queue, if it is one.
    pub queue: u32,
    /// Else the table of queues.
    pub table: Option<u32>,
    /// Whose frames these are: frames of senders of the same transport domain are not looped back.
    pub transport_domain: u32,
    /// Unless they are to: those to one station, and those to groups.
    pub loopback: [bool; 2],
    /// The key of Toeplitz's hash: 40 bytes, or none.
    pub key: Vec<u8>,
    /// What is hashed (`struct mlx5_ifc_rx_hash_field_select_bits`).
    pub fields: u32,
}

/// Tables that a frame passes at most.
const MOST_STEPS: usize = 128;

/// The hash of Toeplitz: for each bit of the input that is set, the 32 bits of the key from there on.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bit = |at: usize| u32::from(key.get(at / 8).copied().unwrap_or(0) >> (7 - at % 8) & 1);
    let mut window = (0..32).fold(0, |window, at| window << 1 | bit(at));
    let mut hash = 0;
    for at in 0..input.len() * 8 {
        if input[at / 8] >> (7 - at % 8) & 1 != 0 {
            hash ^= window;
        }
        window = window << 1 | bit(at + 32);
    }
    hash
}

impl Interface {
    /// The hash of a frame's headers.
    fn hash(&self, set: &[u8]) -> u32 {
        let selects = |bit: Field| bit.is_set(&self.fields.to_be_bytes());
        let version = field::IP_VERSION.get(set);
        let low = if version == 4 { 12 } else { 0 };
        let mut input = Vec::with_capacity(36);
        for (bit, at) in [(hash_fields::SOURCE_IP, 32), (hash_fields::DESTINATION_IP, 48)] {
            if selects(bit) {
                input.extend_from_slice(set.get(at + low..at + 16).unwrap_or_default());
            }
        }
        let ports = match selects(hash_fields::UDP) {
            true => [field::UDP_SPORT, field::UDP_DPORT],
            false => [field::TCP_SPORT, field::TCP_DPORT],
        };
        let bits = [hash_fields::SOURCE_PORT, hash_fields::DESTINATION_PORT];
        for (bit, port) in bits.into_iter().zip(ports) {
            if selects(bit) {
                input.extend_from_slice(&(port.get(set) as u16).to_be_bytes());
            }
        }
        toeplitz(&self.key, &input)
    }
}

impl FlowTable {
    /// The first entry that matches.
    fn find(&self, set: &[u8]) -> Option<&FlowEntry> {
        self.entries.values().find(|entry| {
            let looks = self.groups.get(&entry.group);
            looks.is_some_and(|looks| {
                looks.iter().all(|&(at, mask)| {
                    // The frame has nothing but outer headers: whatever else is asked for is zero.
                    let byte = |bytes: &[u8]| bytes.get(at).copied().unwrap_or(0);
                    (byte(set) ^ byte(&entry.value)) & mask == 0
                })
            })
        })
    }
}

fn unknown(what: &'static str, number: u32) -> Refused {
    Refused::Unknown { what, number }
}

impl Steering {
    /// The queues that a frame goes to. `sender` is the transport domain of a sender on this port.
    pub fn queues_of(&mut self, frame: &[u8], sender: Option<u32>) -> Vec<u32> {
        let set = headers::of(frame);
        let group = frame.first().is_some_and(|first| first & 1 != 0);
        let mut queues = Vec::new();
        let mut tables: Vec<u32> = self.root.into_iter().collect();
        for _ in 0..MOST_STEPS {
            let Some(table) = tables.pop().and_then(|table| self.tables.get(&table)) else { break };
            let Some(entry) = table.find(&set) else {
                tables.extend(table.miss);
                continue;
            };
            for counter in &entry.counters {
                if let Some(counter) = self.counters.get_mut(counter) {
                    counter.packets += 1;
                    counter.octets += frame.len() as u64;
                }
            }
            for destination in &entry.destinations {
                match *destination {
                    Destination::Table(table) => tables.push(table),
                    Destination::Interface(number) => {
                        queues.extend(self.through(number, &set, sender, group));
                    }
                }
            }
        }
        queues
    }

    /// The queue behind an interface.
    fn through(&self, number: u32, set: &[u8], sender: Option<u32>, group: bool) -> Option<u32> {
        let interface = self.interfaces.get(&number)?;
        let own = sender == Some(interface.transport_domain);
        if own && !interface.loopback[usize::from(group)] {
            return None;
        }
        let Some(table) = interface.table else { return Some(interface.queue) };
        let queues = self.queues.get(&table)?;
        let place = (interface.hash(set) as usize).checked_rem(queues.len())?;
        queues.get(place).copied()
    }

    /// Makes a flow table.
    pub fn create_table(&mut self, number: u32, miss: Option<u32>) {
        self.tables.insert(number, FlowTable { miss, ..FlowTable::default() });
    }

    /// Changes where frames go that nothing of a table matches.
    pub fn set_miss(&mut self, number: u32, miss: Option<u32>) -> Result<(), Refused> {
        self.table(number)?.miss = miss;
        Ok(())
    }

    /// Destroys a flow table.
    pub fn destroy_table(&mut self, number: u32) -> Result<(), Refused> {
        if self.root == Some(number) {
            self.root = None;
        }
        self.tables.remove(&number).map(drop).ok_or(unknown("flow table", number))
    }

    /// Begins with this table from now on, or drops all.
    pub fn set_root(&mut self, number: Option<u32>) -> Result<(), Refused> {
        if let Some(number) = number {
            self.table(number)?;
        }
        self.root = number;
        Ok(())
    }

    fn table(&mut self, number: u32) -> Result<&mut FlowTable, Refused> {
        self.tables.get_mut(&number).ok_or(unknown("flow table", number))
    }

    /// Makes a group of a table, whose entries look at the bits of `mask`.
    pub fn create_group(&mut self, table: u32, number: u32, mask: &[u8]) -> Result<(), Refused> {
        let looks = mask.iter().copied().enumerate().filter(|(_, mask)| *mask != 0).collect();
        self.table(table)?.groups.insert(number, looks);
        Ok(())
    }

    /// Destroys a group.
    pub fn destroy_group(&mut self, table: u32, number: u32) -> Result<(), Refused> {
        let table = self.table(table)?;
        table.groups.remove(&number).map(drop).ok_or(unknown("flow group", number))
    }

    /// Sets the entry at an index of a table.
    pub fn set_entry(&mut self, table: u32, index: u32, entry: FlowEntry) -> Result<(), Refused> {
        for &destination in &entry.destinations {
            let known = match destination {
                Destination::Table(number) => self.tables.contains_key(&number),
                Destination::Interface(number) => self.interfaces.contains_key(&number),
            };
            let (Destination::Table(number) | Destination::Interface(number)) = destination;
            if !known {
                return Err(unknown("destination of frames", number));
            }
        }
        let table = self.table(table)?;
        if !table.groups.contains_key(&entry.group) {
            return Err(unknown("flow group", entry.group));
        }
        table.entries.insert(index, entry);
        Ok(())
    }

    /// Takes the entry at an index of a table away.
    pub fn remove_entry(&mut self, table: u32, index: u32) -> Result<(), Refused> {
        let table = self.table(table)?;
        table.entries.remove(&index).map(drop).ok_or(unknown("flow entry", index))
    }

    /// Makes an interface, or changes it.
    pub fn set_interface(&mut self, number: u32, interface: Interface) {
        self.interfaces.insert(number, interface);
    }

    /// An interface.
    pub fn interface(&self, number: u32) -> Option<&Interface> {
        self.interfaces.get(&number)
    }

    /// Destroys an interface.
    pub fn destroy_interface(&mut self, number: u32) {
        self.interfaces.remove(&number);
    }

    /// Makes a table of queues, or changes it.
    pub fn set_queues(&mut self, number: u32, queues: Vec<u32>) {
        self.queues.insert(number, queues);
    }

    /// Destroys a table of queues.
    pub fn destroy_queues(&mut self, number: u32) {
        self.queues.remove(&number);
    }

    /// Makes a counter.
    pub fn create_counter(&mut self, number: u32) {
        self.counters.insert(number, FlowCounter::default());
    }

    /// A counter, which begins anew if `clear` says so.
    pub fn read_counter(&mut self, number: u32, clear: bool) -> Result<FlowCounter, Refused> {
        let counter = self.counters.get_mut(&number).ok_or(unknown("flow counter", number))?;
        let read = *counter;
        if clear {
            *counter = FlowCounter::default();
        }
        Ok(read)
    }

    /// Destroys a counter.
    pub fn destroy_counter(&mut self, number: u32) {
        self.counters.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectx::firmware::MATCHED as MATCH_BYTES;

    /// The verification suite of RSS (Microsoft, "Verifying the RSS Hash Calculation"): TCP over IPv4.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn tcp(source: [u8; 4], destination: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
        frame.extend(source);
        frame.extend(destination);
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([0; 16]);
        frame
    }

    #[test]
    fn the_hash_is_the_one_of_the_verification_suite() {
        let set = headers::of(&tcp([66, 9, 149, 187], [161, 142, 100, 80], [2794, 1766]));
        let mut interface = Interface { key: KEY.to_vec(), fields: 0b1111, ..Interface::default() };
        assert_eq!(interface.hash(&set), 0x51cc_c178);
        interface.fields = 0b11;
        assert_eq!(interface.hash(&set), 0x323e_8fc2);
    }

    fn masked(field: Field, value: u64) -> (Vec<u8>, Box<[u8]>) {
        let (mut mask, mut bytes) = (vec![0; MATCH_BYTES], vec![0; MATCH_BYTES]);
        field.set(&mut mask, u64::MAX);
        field.set(&mut bytes, value);
        (mask, bytes.into())
    }

    fn entry(group: u32, value: Box<[u8]>, destinations: &[Destination]) -> FlowEntry {
        FlowEntry { group, value, destinations: destinations.to_vec(), counters: vec![7] }
    }

    #[test]
    fn a_frame_goes_where_the_first_entry_that_matches_says() {
        let mut steering = Steering::default();
        let frame = tcp([10, 0, 0, 1], [10, 0, 0, 2], [5, 80]);
        let other = tcp([10, 0, 0, 1], [10, 0, 0, 2], [5, 81]);
        assert!(steering.queues_of(&frame, None).is_empty());
        steering.create_counter(7);
        steering.set_interface(1, Interface { queue: 0x50, ..Interface::default() });
        let hashed =
            Interface { table: Some(9), key: KEY.to_vec(), fields: 0b1111, ..Interface::default() };
        steering.set_interface(2, hashed);
        steering.set_queues(9, vec![0x60, 0x61]);
        steering.create_table(1, Some(2));
        steering.create_table(2, None);
        steering.set_root(Some(1)).unwrap();
        let (mask, value) = masked(field::TCP_DPORT, 80);
        steering.create_group(1, 1, &mask).unwrap();
        steering.set_entry(1, 3, entry(1, value, &[Destination::Interface(1)])).unwrap();
        let (mask, value) = masked(field::ETHERTYPE, 0x800);
        steering.create_group(2, 1, &mask).unwrap();
        let both = [Destination::Interface(1), Destination::Interface(2)];
        steering.set_entry(2, 0, entry(1, value, &both)).unwrap();
        assert_eq!(steering.queues_of(&frame, None), [0x50]);
        let queues = steering.queues_of(&other, None);
        assert_eq!((queues.len(), queues[0], queues[1] & !1), (2, 0x50, 0x60));
        assert!(steering.queues_of(&[1; 20], None).is_empty());
        let octets = (frame.len() + other.len()) as u64;
        let counted = FlowCounter { packets: 2, octets };
        assert_eq!(steering.read_counter(7, true), Ok(counted));
        assert_eq!(steering.read_counter(7, false), Ok(FlowCounter::default()));
        steering.remove_entry(1, 3).unwrap();
        assert_eq!(steering.queues_of(&frame, None).len(), 2);
        steering.destroy_table(2).unwrap();
        assert!(steering.queues_of(&frame, None).is_empty());
    }

    #[test]
    fn a_sender_hears_itself_only_where_that_was_asked_for() {
        let mut steering = Steering::default();
        let interface = Interface { queue: 5, transport_domain: 3, ..Interface::default() };
        steering.set_interface(1, interface.clone());
        steering.create_table(1, None);
        steering.set_root(Some(1)).unwrap();
        let (mask, value) = (vec![0; MATCH_BYTES], vec![0; MATCH_BYTES].into());
        steering.create_group(1, 1, &mask).unwrap();
        steering.set_entry(1, 0, entry(1, value, &[Destination::Interface(1)])).unwrap();
        let frame = tcp([0; 4], [0; 4], [0; 2]);
        assert_eq!(steering.queues_of(&frame, Some(4)), [5]);
        assert!(steering.queues_of(&frame, Some(3)).is_empty());
        steering.set_interface(1, Interface { loopback: [true, false], ..interface });
        assert_eq!(steering.queues_of(&frame, Some(3)), [5]);
    }

    #[test]
    fn tables_that_lead_to_each_other_end() {
        let mut steering = Steering::default();
        steering.create_table(1, Some(2));
        steering.create_table(2, Some(1));
        steering.set_root(Some(1)).unwrap();
        assert!(steering.queues_of(&tcp([0; 4], [0; 4], [0; 2]), None).is_empty());
        assert!(steering.set_root(Some(3)).is_err());
        let to = entry(1, Box::default(), &[Destination::Table(9)]);
        assert!(steering.set_entry(1, 0, to).is_err());
    }
}
