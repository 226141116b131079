//! The port: what it is called, whether it is up, and where packets to it are addressed.

use super::field::Field;
use super::layout::port::{
    hca_vport_context, nic_vport_context, nic_vport_fields, query_hca_vport_gid_in,
    query_hca_vport_gid_out, query_hca_vport_pkey_in, query_vport_state_out, roce_address,
    set_roce_address_in,
};
use super::status::{Done, Refusal};
use super::{Firmware, answer};
use crate::connectx::SourceIdentifier;
use crate::fabric::Address;
use crate::kernel::LinkLayer;

/// Entries of the table of global identifiers of an Ethernet port.
pub(super) const ROCE_ADDRESSES: usize = 256;
/// Entries of an InfiniBand port's tables.
const IDENTIFIERS: usize = 8;
const PARTITION_KEYS: usize = 128;
/// Where a structure begins in an answer, and in most commands.
const STRUCTURE: usize = 16;
/// Where the structure begins in MODIFY_NIC_VPORT_CONTEXT.
const MODIFIED: usize = 256;
/// Asks for a whole table.
const WHOLE: u32 = 0xffff;
/// The most bytes of a frame, without its header.
const ETHERNET_MTU: u16 = 9978;
/// What an InfiniBand port can (`cap_mask1`), as a ConnectX-5 says.
const CAPABILITY_MASK: u32 = 0x0201_4848;
/// Of these, what a driver may change: whether there is a connection manager (`IB_PORT_CM_SUP`).
const CHANGEABLE: u32 = 1 << 16;
/// States of ports (`enum ib_port_state`, IBTA's physical states).
const ACTIVE: u64 = 4;
const DOWN: u64 = 1;
const LINK_UP: u64 = 5;
const POLLING: u64 = 2;

/// An address of the table that SET_ROCE_ADDRESS writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoceAddress {
    /// The global identifier.
    pub(crate) gid: [u8; 16],
    /// The Ethernet address that packets are sent from.
    pub(crate) mac: [u8; 6],
    /// 0 for version 1 of RoCE, 2 for version 2.
    pub(crate) version: u8,
}

/// What a port is called, and what its driver has told it.
#[derive(Clone, Debug)]
pub struct Port {
    /// Ethernet or InfiniBand.
    pub link_layer: LinkLayer,
    /// The globally unique identifier of node and port.
    pub guid: u64,
    /// The Ethernet address.
    pub mac: [u8; 6],
    /// The local identifier on an InfiniBand subnet.
    pub lid: u16,
    /// The most bytes of a frame that the driver asked for.
    pub(super) mtu: u16,
    roce_enabled: bool,
    /// What an InfiniBand port says it can.
    capability_mask: u32,
    /// Frames that are sent do not come in again: those for one station, and those for groups.
    no_loopback: [bool; 2],
    addresses: Vec<Option<RoceAddress>>,
}

impl Port {
    /// The port of the `number`th function on a fabric, from 1 on: no two are called the same.
    pub fn new(link_layer: LinkLayer, number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        Port {
            link_layer,
            guid: 0x0200_00ff_fe00_0000 | u64::from(number),
            mac: [0x02, 0, 0, 0, high, low],
            lid: number,
            mtu: ETHERNET_MTU,
            roce_enabled: false,
            capability_mask: CAPABILITY_MASK,
            no_loopback: [false; 2],
            addresses: vec![None; ROCE_ADDRESSES],
        }
    }

    /// The global identifier of an InfiniBand port: the link-local prefix and its number.
    fn identifier(&self) -> [u8; 16] {
        (0xfe80_0000_0000_0000u128 << 64 | u128::from(self.guid)).to_be_bytes()
    }

    /// The entry of the table that packets are sent from.
    pub(crate) fn roce_address(&self, index: usize) -> Option<RoceAddress> {
        self.addresses.get(index).copied().flatten()
    }

    fn mac_number(&self) -> u64 {
        self.mac.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }
}

impl Firmware {
    /// Gives the NIC the addresses that the port has without being told.
    pub(super) fn bind_addresses(&mut self) {
        self.tell_loopback();
        let addresses = match self.port.link_layer {
            LinkLayer::InfiniBand => {
                vec![Address::Lid(self.port.lid), Address::Gid(self.port.identifier())]
            }
            LinkLayer::Ethernet => vec![Address::Mac(self.port.mac)],
        };
        self.network.with_nic(self.nic, |nic, fabric, _| {
            for address in addresses {
                nic.bind(address, fabric);
            }
            if self.port.link_layer == LinkLayer::InfiniBand {
                nic.set_source_lid(self.port.lid);
                let gid = self.port.identifier();
                nic.set_source(0, Some(SourceIdentifier { gid, ip: false }));
            }
        });
    }

    fn tell_loopback(&self) {
        let [stations, groups] = self.port.no_loopback.map(|off| !off);
        self.network.with_nic(self.nic, |nic, _, _| nic.set_frame_loopback(stations, groups));
    }

    fn is_link_up(&self) -> bool {
        self.network.with_nic(self.nic, |nic, _, _| nic.is_link_up()).unwrap_or(false)
    }

    /// The link comes up or goes down.
    pub fn set_link(&mut self, up: bool) {
        self.network.with_nic(self.nic, |nic, _, _| nic.set_link(up));
    }

    pub(super) fn query_vport_state(&mut self, output: &mut [u8]) -> Done {
        let up = self.is_link_up().into();
        query_vport_state_out::ADMIN_STATE.set(output, 1);
        query_vport_state_out::STATE.set(output, up);
        Ok(())
    }

    pub(super) fn query_hca_vport(&mut self, output: &mut [u8]) -> Done {
        use hca_vport_context::*;
        let up = self.is_link_up();
        let state = if up { ACTIVE } else { DOWN };
        let mut put = |field: Field, value| field.within(STRUCTURE).set(output, value);
        put(PORT_PHYSICAL_STATE, if up { LINK_UP } else { POLLING });
        put(PORT_STATE, state);
        put(VPORT_STATE, state);
        for guid in [SYSTEM_IMAGE_GUID, PORT_GUID, NODE_GUID] {
            put(guid, self.port.guid);
        }
        put(CAP_MASK1, self.port.capability_mask.into());
        put(CAP_MASK1_FIELD_SELECT, CHANGEABLE.into());
        put(LID, self.port.lid.into());
        put(SM_LID, 1);
        put(SUBNET_TIMEOUT, 18);
        Ok(())
    }

    pub(super) fn modify_hca_vport(&mut self, input: &[u8]) -> Done {
        use hca_vport_context::*;
        let value = |field: Field| field.within(STRUCTURE).get32(input);
        let changed = value(CAP_MASK1_FIELD_SELECT);
        if changed & !CHANGEABLE != 0 {
            return Err(Refusal::parameter("the mask of changed capabilities", changed));
        }
        let mask = &mut self.port.capability_mask;
        *mask = *mask & !changed | value(CAP_MASK1) & changed;
        Ok(())
    }

    pub(super) fn query_hca_vport_gid(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let index = query_hca_vport_gid_in::GID_INDEX.get32(input);
        let count = table_part("global identifier", index, IDENTIFIERS)?;
        if index == 0 || index == WHOLE {
            answer(output, STRUCTURE, &self.port.identifier());
        }
        query_hca_vport_gid_out::GIDS_NUM.set(output, count as u64);
        Ok(())
    }

    pub(super) fn query_hca_vport_pkey(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        // Each key is the low half of a word (`struct mlx5_ifc_pkey_bits`).
        const KEY: Field = Field::new(16, 16);
        let index = query_hca_vport_pkey_in::PKEY_INDEX.get32(input);
        table_part("partition key", index, PARTITION_KEYS)?;
        if index == 0 || index == WHOLE {
            KEY.within(STRUCTURE).set(output, 0xffff);
        }
        Ok(())
    }

    pub(super) fn query_nic_vport(&mut self, output: &mut [u8]) -> Done {
        use nic_vport_context::*;
        let mut put = |field: Field, value| field.within(STRUCTURE).set(output, value);
        put(MTU, self.port.mtu.into());
        for guid in [SYSTEM_IMAGE_GUID, PORT_GUID, NODE_GUID] {
            put(guid, self.port.guid);
        }
        put(ROCE_EN, self.port.roce_enabled.into());
        put(DISABLE_UC_LOCAL_LB, self.port.no_loopback[0].into());
        put(DISABLE_MC_LOCAL_LB, self.port.no_loopback[1].into());
        put(PERMANENT_ADDRESS, self.port.mac_number());
        Ok(())
    }

    pub(super) fn modify_nic_vport(&mut self, input: &[u8]) -> Done {
        let selected = |field: Field| field.within(MODIFY_SELECT).is_set(input);
        let value = |field: Field| field.within(MODIFIED).get(input);
        if selected(nic_vport_fields::ROCE_EN) {
            self.port.roce_enabled = value(nic_vport_context::ROCE_EN) != 0;
        }
        if selected(nic_vport_fields::DISABLE_UC_LOCAL_LB) {
            self.port.no_loopback[0] = value(nic_vport_context::DISABLE_UC_LOCAL_LB) != 0;
        }
        if selected(nic_vport_fields::DISABLE_MC_LOCAL_LB) {
            self.port.no_loopback[1] = value(nic_vport_context::DISABLE_MC_LOCAL_LB) != 0;
        }
        self.tell_loopback();
        if selected(nic_vport_fields::MTU) {
            self.port.mtu = value(nic_vport_context::MTU) as u16;
        }
        Ok(())
    }

    pub(super) fn set_roce_address(&mut self, input: &[u8]) -> Done {
        let index = set_roce_address_in::ROCE_ADDRESS_INDEX.get32(input);
        let structure = input.get(STRUCTURE..).unwrap_or_default();
        let mut gid = [0; 16];
        answer(&mut gid, 0, structure);
        let mac = roce_address::SOURCE_MAC_47_32.get(structure) << 32
            | roce_address::SOURCE_MAC_31_0.get(structure);
        let [_, _, mac @ ..] = mac.to_be_bytes();
        let version = roce_address::ROCE_VERSION.get(structure) as u8;
        let entry = self
            .port
            .addresses
            .get_mut(index as usize)
            .ok_or_else(|| Refusal::parameter("index of a RoCE address", index))?;
        let new = (gid != [0; 16]).then_some(RoceAddress { gid, mac, version });
        let old = std::mem::replace(entry, new);
        let has = |gid| self.port.addresses.iter().flatten().any(|entry| entry.gid == gid);
        let gone = old.map(|old| old.gid).filter(|&gid| !has(gid));
        self.network.with_nic(self.nic, |nic, fabric, _| {
            if let Some(gid) = gone {
                nic.unbind(Address::Gid(gid), fabric);
            }
            let source = new.map(|new| SourceIdentifier { gid: new.gid, ip: new.version > 0 });
            nic.set_source(index as u8, source);
            if let Some(new) = new {
                nic.bind(Address::Gid(new.gid), fabric);
            }
        });
        Ok(())
    }
}

/// How many entries of a table of `length` an index asks for.
fn table_part(what: &str, index: u32, length: usize) -> Done<usize> {
    match index {
        WHOLE => Ok(length),
        index if (index as usize) < length => Ok(1),
        index => Err(Refusal::parameter(&format!("index of a {what}"), index)),
    }
}

/// Where MODIFY_NIC_VPORT_CONTEXT says what is to change.
const MODIFY_SELECT: usize = 12;
