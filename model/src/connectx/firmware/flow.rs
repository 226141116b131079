//! What frames that come in are steered by: flow tables with groups, entries and counters, the
//! interfaces that they lead to (TIR), and tables of receive queues (RQT). Interfaces that send (TIS)
//! say whose frames those are.

use super::field::Field;
use super::layout::flow::{
    create_flow_group_in, create_flow_group_out, create_flow_table_in, destination,
    destroy_flow_group_in, flow_context, flow_table_context, flow_table_in, modify_tir_bitmask,
    query_flow_counter_in, set_fte_in, tirc, tisc, traffic_counter,
};
use super::numbers::Kind;
use super::status::{Done, Refusal};
use super::{Firmware, MATCHED, part};
use crate::connectx::{Destination, FlowEntry, Interface, Steering};

/// Where most commands name an object, and most answers a new one: 24 bits from byte 9 on.
const OBJECT: Field = Field::new(0x48, 24);
/// Where a counter's number is in the answer and the command that make it and take it back.
const COUNTER: Field = Field::new(0x40, 32);
/// Where the context is in commands about interfaces and tables of queues.
const CONTEXT: usize = 32;
/// Where the context of a flow table is, and what a group matches.
const TABLE_CONTEXT: usize = 24;
const CRITERIA: usize = 64;
/// Where an entry is in its command, and what it matches and its list of destinations in that.
const ENTRY: usize = 64;
const VALUE: usize = ENTRY + 64;
const DESTINATIONS: usize = ENTRY + flow_context::BYTES;
/// Where what changes of an interface is said.
const CHANGES: usize = 16;
/// Where the key of an interface's hash is in its context.
const HASH_KEY: usize = CONTEXT + 40;
const HASH_KEY_BYTES: usize = 40;
/// A table of receive queues (`struct mlx5_ifc_rqtc_bits`): how many there are, and where the list
/// of their numbers begins, a word each.
const TABLE_SIZE: Field = Field::new(0xd0, 16).within(CONTEXT);
const TABLE_LIST: usize = CONTEXT + 240;
const TABLE_ENTRY: Field = Field::new(8, 24);
/// The only kind of flow tables: of what comes in (`FS_FT_NIC_RX`).
const RECEIVE: u64 = 0;
/// What becomes of a frame (`MLX5_FLOW_CONTEXT_ACTION_*`).
const DROP: u64 = 0x2;
const FORWARD: u64 = 0x4;
const COUNT: u64 = 0x8;
const KNOWN_ACTIONS: u64 = 0x1 | DROP | FORWARD | COUNT;
/// What a table does with a frame that nothing matches: the other table (`MLX5_FLOW_TABLE_MISS_ACTION_FWD`).
const MISS_FORWARD: u64 = 1;
/// MODIFY_FLOW_TABLE changes that.
const MODIFY_MISS: u64 = 1;
/// SET_FLOW_TABLE_ROOT takes the root away (else it sets it).
const DISCONNECT: u64 = 1;
/// Kinds of destinations (`MLX5_IFC_FLOW_DESTINATION_TYPE_*`).
const TO_TABLE: u64 = 1;
const TO_INTERFACE: u64 = 2;
/// Destinations of an entry at most.
const MOST_DESTINATIONS: usize = 1 << 10;

impl Firmware {
    fn steering<R>(
        &self,
        with: impl FnOnce(&mut Steering) -> Result<R, crate::connectx::Refused>,
    ) -> Done<R> {
        self.with_nic(|nic, _, _| with(nic.steering()))
    }

    pub(super) fn create_flow_table(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let kind = create_flow_table_in::TABLE_TYPE.get(input);
        if kind != RECEIVE {
            return Err(Refusal::parameter("kind of a flow table", kind));
        }
        let miss = miss(input);
        let number = self.numbers.take(Kind::FlowTable)?;
        self.steering(|steering| {
            steering.create_table(number, miss);
            Ok(())
        })?;
        OBJECT.set(output, number.into());
        Ok(())
    }

    pub(super) fn destroy_flow_table(&mut self, input: &[u8]) -> Done {
        let number = flow_table_in::TABLE_ID.get32(input);
        self.numbers.give_back(Kind::FlowTable, number)?;
        self.steering(|steering| steering.destroy_table(number))
    }

    pub(super) fn modify_flow_table(&mut self, input: &[u8]) -> Done {
        let number = flow_table_in::TABLE_ID.get32(input);
        let changes = flow_table_in::MODIFY_FIELD_SELECT.get(input);
        if changes & MODIFY_MISS == 0 {
            return self.expect(Kind::FlowTable, number);
        }
        let miss = miss(input);
        self.steering(|steering| steering.set_miss(number, miss))
    }

    pub(super) fn set_flow_table_root(&mut self, input: &[u8]) -> Done {
        let number = flow_table_in::TABLE_ID.get32(input);
        let disconnects = super::layout::command::command::OP_MOD.get(input) == DISCONNECT;
        self.steering(|steering| steering.set_root((!disconnects).then_some(number)))
    }

    pub(super) fn create_flow_group(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let table = create_flow_group_in::TABLE_ID.get32(input);
        let enabled = create_flow_group_in::MATCH_CRITERIA_ENABLE.get(input);
        let mut mask = part(input, CRITERIA, MATCHED)?.to_vec();
        // Outer headers, others, inner headers, others: a bit each says that they are looked at.
        for (number, set) in mask.chunks_mut(64).enumerate() {
            if enabled >> number & 1 == 0 {
                set.fill(0);
            }
        }
        let number = self.numbers.take(Kind::FlowGroup)?;
        let made = self.steering(|steering| steering.create_group(table, number, &mask));
        if made.is_err() {
            self.numbers.give_back(Kind::FlowGroup, number)?;
        }
        made?;
        create_flow_group_out::GROUP_ID.set(output, number.into());
        Ok(())
    }

    pub(super) fn destroy_flow_group(&mut self, input: &[u8]) -> Done {
        let table = destroy_flow_group_in::TABLE_ID.get32(input);
        let number = destroy_flow_group_in::GROUP_ID.get32(input);
        self.steering(|steering| steering.destroy_group(table, number))?;
        self.numbers.give_back(Kind::FlowGroup, number)
    }

    pub(super) fn set_flow_table_entry(&mut self, input: &[u8]) -> Done {
        let table = set_fte_in::TABLE_ID.get32(input);
        let index = set_fte_in::FLOW_INDEX.get32(input);
        let context = part(input, ENTRY, flow_context::BYTES)?;
        let action = flow_context::ACTION.get(context);
        if action & !KNOWN_ACTIONS != 0 {
            return Err(Refusal::parameter("action of a flow entry", action));
        }
        let listed = flow_context::DESTINATION_LIST_SIZE.get(context) as usize;
        let counted = flow_context::FLOW_COUNTER_LIST_SIZE.get(context) as usize;
        if listed + counted > MOST_DESTINATIONS {
            return Err(Refusal::parameter("number of destinations", listed + counted));
        }
        let list = part(input, DESTINATIONS, (listed + counted) * destination::BYTES)?;
        let (to, counters) = list.split_at(listed * destination::BYTES);
        let mut destinations = Vec::new();
        for entry in to.chunks_exact(destination::BYTES) {
            let number = destination::DESTINATION_ID.get32(entry);
            destinations.push(match destination::DESTINATION_TYPE.get(entry) {
                TO_TABLE => Destination::Table(number),
                TO_INTERFACE => Destination::Interface(number),
                other => return Err(Refusal::parameter("kind of a destination", other)),
            });
        }
        if action & FORWARD == 0 {
            destinations.clear();
        }
        let counters = counters.chunks_exact(destination::BYTES);
        let entry = FlowEntry {
            group: flow_context::GROUP_ID.get32(context),
            value: part(input, VALUE, MATCHED)?.into(),
            destinations,
            counters: counters.map(|entry| Field::new(0, 32).get32(entry)).collect(),
        };
        self.steering(|steering| steering.set_entry(table, index, entry))
    }

    pub(super) fn delete_flow_table_entry(&mut self, input: &[u8]) -> Done {
        let table = set_fte_in::TABLE_ID.get32(input);
        let index = set_fte_in::FLOW_INDEX.get32(input);
        self.steering(|steering| steering.remove_entry(table, index))
    }

    pub(super) fn allocate_flow_counter(&mut self, output: &mut [u8]) -> Done {
        let number = self.numbers.take(Kind::FlowCounter)?;
        self.steering(|steering| {
            steering.create_counter(number);
            Ok(())
        })?;
        COUNTER.set(output, number.into());
        Ok(())
    }

    pub(super) fn free_flow_counter(&mut self, input: &[u8]) -> Done {
        let number = COUNTER.get32(input);
        self.numbers.give_back(Kind::FlowCounter, number)?;
        self.steering(|steering| {
            steering.destroy_counter(number);
            Ok(())
        })
    }

    pub(super) fn query_flow_counter(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        /// Where the counter begins in the answer.
        const ANSWER: usize = 16;
        let number = query_flow_counter_in::FLOW_COUNTER_ID.get32(input);
        let clear = query_flow_counter_in::CLEAR.is_set(input);
        let counter = self.steering(|steering| steering.read_counter(number, clear))?;
        traffic_counter::PACKETS.within(ANSWER).set(output, counter.packets);
        traffic_counter::OCTETS.within(ANSWER).set(output, counter.octets);
        Ok(())
    }

    pub(super) fn create_receive_table(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let queues = listed(input)?;
        let number = self.numbers.take(Kind::ReceiveTable)?;
        self.set_queues(number, queues)?;
        OBJECT.set(output, number.into());
        Ok(())
    }

    pub(super) fn modify_receive_table(&mut self, input: &[u8]) -> Done {
        let number = OBJECT.get32(input);
        self.expect(Kind::ReceiveTable, number)?;
        self.set_queues(number, listed(input)?)
    }

    fn set_queues(&mut self, number: u32, queues: Vec<u32>) -> Done {
        self.steering(|steering| {
            steering.set_queues(number, queues);
            Ok(())
        })
    }

    pub(super) fn destroy_receive_table(&mut self, input: &[u8]) -> Done {
        let number = OBJECT.get32(input);
        self.numbers.give_back(Kind::ReceiveTable, number)?;
        self.steering(|steering| {
            steering.destroy_queues(number);
            Ok(())
        })
    }

    pub(super) fn create_receive_interface(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        /// The interface leads to a table of queues (`MLX5_TIRC_DISP_TYPE_INDIRECT`).
        const INDIRECT: u64 = 1;
        let context = part(input, CONTEXT, tirc::BYTES)?;
        let indirect = tirc::DISP_TYPE.get(context) == INDIRECT;
        let mut interface = Interface {
            queue: tirc::INLINE_RQN.get32(context),
            table: indirect.then(|| tirc::INDIRECT_TABLE.get32(context)),
            transport_domain: tirc::TRANSPORT_DOMAIN.get32(context),
            ..Interface::default()
        };
        set_loopback(&mut interface, input);
        set_hash(&mut interface, input)?;
        let number = self.numbers.take(Kind::ReceiveInterface)?;
        self.steering(|steering| {
            steering.set_interface(number, interface);
            Ok(())
        })?;
        OBJECT.set(output, number.into());
        Ok(())
    }

    pub(super) fn modify_receive_interface(&mut self, input: &[u8]) -> Done {
        let number = OBJECT.get32(input);
        self.expect(Kind::ReceiveInterface, number)?;
        let changed = |field: Field| field.within(CHANGES).is_set(input);
        let known = self.steering(|steering| Ok(steering.interface(number).cloned()))?;
        let mut interface = known.unwrap_or_default();
        if changed(modify_tir_bitmask::SELF_LB_EN) {
            set_loopback(&mut interface, input);
        }
        if changed(modify_tir_bitmask::HASH) {
            set_hash(&mut interface, input)?;
        }
        self.steering(|steering| {
            steering.set_interface(number, interface);
            Ok(())
        })
    }

    pub(super) fn destroy_receive_interface(&mut self, input: &[u8]) -> Done {
        let number = OBJECT.get32(input);
        self.numbers.give_back(Kind::ReceiveInterface, number)?;
        self.steering(|steering| {
            steering.destroy_interface(number);
            Ok(())
        })
    }

    pub(super) fn create_send_interface(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let number = self.numbers.take(Kind::SendInterface)?;
        let domain = tisc::TRANSPORT_DOMAIN.within(CONTEXT).get32(input);
        self.send_interfaces.insert(number, domain);
        OBJECT.set(output, number.into());
        Ok(())
    }

    pub(super) fn destroy_send_interface(&mut self, input: &[u8]) -> Done {
        let number = OBJECT.get32(input);
        self.numbers.give_back(Kind::SendInterface, number)?;
        self.send_interfaces.remove(&number);
        Ok(())
    }
}

/// Which frames of its own domain an interface takes: those to one station, and those to groups.
fn set_loopback(interface: &mut Interface, input: &[u8]) {
    let bits = tirc::SELF_LB_BLOCK.within(CONTEXT).get(input);
    interface.loopback = [bits & 1 != 0, bits & 2 != 0];
}

fn set_hash(interface: &mut Interface, input: &[u8]) -> Done {
    interface.key = part(input, HASH_KEY, HASH_KEY_BYTES)?.to_vec();
    interface.fields = tirc::RX_HASH_FIELD_SELECTOR_OUTER.within(CONTEXT).get32(input);
    Ok(())
}

/// Where a flow table sends what nothing matches.
fn miss(input: &[u8]) -> Option<u32> {
    let context = input.get(TABLE_CONTEXT..).unwrap_or_default();
    let forwards = flow_table_context::TABLE_MISS_ACTION.get(context) == MISS_FORWARD;
    forwards.then(|| flow_table_context::TABLE_MISS_ID.get32(context))
}

/// The queues that a table lists.
fn listed(input: &[u8]) -> Done<Vec<u32>> {
    let count = TABLE_SIZE.get(input) as usize;
    let list = part(input, TABLE_LIST, count * 4)?;
    Ok(list.chunks_exact(4).map(|entry| TABLE_ENTRY.get32(entry)).collect())
}
