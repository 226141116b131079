//! Registers of the port, which ACCESS_REG reads and writes.

use super::field::Field;
use super::layout::command::{access_register_in, command};
use super::layout::port::{paos, pmtu, ptys, pvlc};
use super::status::{Done, Refusal, Status};
use super::{Firmware, answer};
use crate::kernel::LinkLayer;

/// Where a register's bytes begin, in command and answer.
const DATA: usize = 16;
/// ACCESS_REG reads (else it writes).
const READ: u32 = 1;

/// Numbers of registers (`enum` of `MLX5_REG_*` in `linux/mlx5/driver.h`).
mod number {
    pub(super) const PMTU: u32 = 0x5003;
    pub(super) const PTYS: u32 = 0x5004;
    pub(super) const PAOS: u32 = 0x5006;
    pub(super) const PFCC: u32 = 0x5007;
    pub(super) const PPCNT: u32 = 0x5008;
    pub(super) const PVLC: u32 = 0x500f;
    pub(super) const NODE_DESCRIPTION: u32 = 0x6001;
    pub(super) const HOST_ENDIANNESS: u32 = 0x7004;
}

/// Speeds. InfiniBand: four lanes of 25 Gb/s; Ethernet: 100GBASE-KR4.
mod speed {
    pub(super) const IB_WIDTH: u64 = 4;
    pub(super) const IB_PROTOCOL: u64 = 0x20;
    pub(super) const ETHERNET: u64 = 1 << 22;
}

/// PTYS: which protocol is asked about, a bit each.
const INFINIBAND: u64 = 1;
const ETHERNET: u64 = 4;
const IB_MTU: u64 = 4096;
const MAX_ETHERNET_MTU: u64 = 9978;
/// PAOS: states of ports.
const UP: u64 = 1;
const DOWN: u64 = 2;

impl Firmware {
    pub(super) fn access_register(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let register = access_register_in::REGISTER_ID.get32(input);
        let reads = command::OP_MOD.get32(input) == READ;
        let written = input.get(DATA..).unwrap_or_default().to_vec();
        let mut data = vec![0; output.len().saturating_sub(DATA)];
        match register {
            number::PMTU => self.port_mtu(&mut data),
            number::PTYS => self.port_type(&written, &mut data),
            number::PAOS => {
                if !reads {
                    self.set_link(paos::ADMIN_STATUS.get(&written) == UP);
                }
                self.port_state(&mut data);
            }
            number::PVLC => pvlc::VL_HW_CAP.set(&mut data, 1),
            // No pause frames are sent or obeyed.
            number::PFCC => {}
            number::PPCNT => self.port_counters(&written, &mut data)?,
            number::NODE_DESCRIPTION => {}
            // The host says its byte order. It is x86's.
            number::HOST_ENDIANNESS => {}
            unknown => {
                return Err(Refusal::new(
                    Status::BadParameter,
                    format_args!("there is no register {unknown:#x}"),
                ));
            }
        }
        answer(output, DATA, &data);
        Ok(())
    }

    fn port_mtu(&self, data: &mut [u8]) {
        let mtu = match self.port.link_layer {
            LinkLayer::InfiniBand => IB_MTU,
            LinkLayer::Ethernet => MAX_ETHERNET_MTU,
        };
        for field in [pmtu::MAX_MTU, pmtu::ADMIN_MTU, pmtu::OPER_MTU] {
            field.set(data, mtu);
        }
    }

    fn port_type(&self, asked: &[u8], data: &mut [u8]) {
        ptys::LOCAL_PORT.set(data, 1);
        ptys::PROTO_MASK.copy(asked, data);
        let mut put = |fields: [Field; 3], value| fields.map(|field| field.set(data, value));
        match (self.port.link_layer, ptys::PROTO_MASK.get(asked)) {
            (LinkLayer::InfiniBand, INFINIBAND) => {
                put(
                    [
                        ptys::IB_LINK_WIDTH_CAPABILITY,
                        ptys::IB_LINK_WIDTH_ADMIN,
                        ptys::IB_LINK_WIDTH_OPER,
                    ],
                    speed::IB_WIDTH,
                );
                put(
                    [ptys::IB_PROTO_CAPABILITY, ptys::IB_PROTO_ADMIN, ptys::IB_PROTO_OPER],
                    speed::IB_PROTOCOL,
                );
            }
            (LinkLayer::Ethernet, ETHERNET) => {
                put(
                    [ptys::ETH_PROTO_CAPABILITY, ptys::ETH_PROTO_ADMIN, ptys::ETH_PROTO_OPER],
                    speed::ETHERNET,
                );
            }
            _ => {}
        }
    }

    fn port_state(&self, data: &mut [u8]) {
        let up = self.network.with_nic(self.nic, |nic, _, _| nic.is_link_up()).unwrap_or(false);
        paos::LOCAL_PORT.set(data, 1);
        paos::ADMIN_STATUS.set(data, UP);
        paos::OPER_STATUS.set(data, if up { UP } else { DOWN });
    }
}
