//! Commands about the device itself.

use super::capabilities::{self, Kind};
use super::field::Field;
use super::layout::capability::atomic;
use super::layout::command::{adapter, command, query_issi_out, query_special_contexts_out};
use super::status::Done;
use super::{Firmware, answer};

/// Where a structure begins in an answer.
const STRUCTURE: usize = 16;
/// Interfaces that are spoken: 0 and 1, a bit each.
const INTERFACES: u64 = 0b11;
/// The vendor's numbers at the IEEE and at the PCI SIG.
const IEEE_VENDOR: u64 = 0x2c9;
const PCI_VENDOR: u64 = 0x15b3;
/// The board, which `ibv_devinfo` shows (`vsd_contd_psid`).
const BOARD: &[u8; 16] = b"DRB0000000001\0\0\0";
const BOARD_OFFSET: usize = 0xf0;

/// Keys that the device defines.
mod keys {
    pub(super) const NULL: u64 = 0x200;
    pub(super) const RESERVED: u64 = 0x300;
    pub(super) const END_OF_LIST: u64 = doorbell::mlx5::abi::wqe::DataSegment::INVALID_LKEY as u64;
}

impl Firmware {
    pub(super) fn query_issi(&mut self, output: &mut [u8]) -> Done {
        query_issi_out::CURRENT_ISSI.set(output, self.interface.into());
        query_issi_out::SUPPORTED_ISSI_DW0.set(output, INTERFACES);
        Ok(())
    }

    pub(super) fn set_issi(&mut self, input: &[u8]) -> Done {
        /// `struct mlx5_ifc_set_issi_in_bits`.
        const CURRENT: Field = Field::new(0x50, 16);
        let interface = CURRENT.get32(input);
        if interface > 1 {
            return Err(super::Refusal::parameter("interface", interface));
        }
        self.interface = interface as u16;
        Ok(())
    }

    pub(super) fn query_adapter(&mut self, output: &mut [u8]) -> Done {
        adapter::IEEE_VENDOR_ID.within(STRUCTURE).set(output, IEEE_VENDOR);
        adapter::VSD_VENDOR_ID.within(STRUCTURE).set(output, PCI_VENDOR);
        answer(output, STRUCTURE + BOARD_OFFSET, BOARD);
        Ok(())
    }

    /// A management datagram to the port itself: it knows no attribute.
    pub(super) fn manage(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        /// Where method and status are in a datagram, the method's bit of answers, and the status of
        /// attributes that are not known (IBTA vol. 1, 13.4).
        const METHOD: usize = 3;
        const RESPONSE: u8 = 0x80;
        const STATUS: Field = Field::new(0x20, 16);
        const UNKNOWN_ATTRIBUTE: u64 = 0x000c;
        let mut datagram = input.get(STRUCTURE..).unwrap_or_default().to_vec();
        if let Some(method) = datagram.get_mut(METHOD) {
            *method |= RESPONSE;
        }
        STATUS.set(&mut datagram, UNKNOWN_ATTRIBUTE);
        answer(output, STRUCTURE, &datagram);
        Ok(())
    }

    pub(super) fn query_special_contexts(&mut self, output: &mut [u8]) -> Done {
        query_special_contexts_out::RESD_LKEY.set(output, keys::RESERVED);
        query_special_contexts_out::NULL_MKEY.set(output, keys::NULL);
        query_special_contexts_out::TERMINATE_SCATTER_LIST_MKEY.set(output, keys::END_OF_LIST);
        Ok(())
    }

    pub(super) fn query_capabilities(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let kind = Kind::from_code((command::OP_MOD.get(input) >> 1) as u16);
        if let Kind::Other(code) = kind {
            self.note(format_args!(
                "capabilities of kind {code:#x} were asked for: there are none"
            ));
        }
        let mut structure = capabilities::structure(kind, &self.capabilities, &self.port);
        if kind == Kind::Atomic {
            let mode = self.big_endian_atomics.into();
            atomic::ATOMIC_REQ_8B_ENDIANNESS_MODE.set(&mut structure, mode);
        }
        answer(output, STRUCTURE, &structure);
        Ok(())
    }

    /// Of all that a driver may write back, only the byte order of atomics changes anything.
    pub(super) fn set_capabilities(&mut self, input: &[u8]) -> Done {
        if Kind::from_code((command::OP_MOD.get(input) >> 1) as u16) == Kind::Atomic {
            let structure = input.get(STRUCTURE..).unwrap_or_default();
            self.big_endian_atomics = atomic::ATOMIC_REQ_8B_ENDIANNESS_MODE.is_set(structure);
        }
        Ok(())
    }
}
