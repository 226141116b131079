//! Which frames come in, and where to.

use super::{Answered, answer, done};
use crate::netxtreme::Netxtreme;
use crate::netxtreme::ethernet::{Filter, Interface};
use doorbell::bnxt::abi::firmware::ErrorCode;
use doorbell::bnxt::abi::firmware::receive::{
    CfaL2FilterAllocAnswer, CfaL2FilterAllocRequest, CfaL2FilterFreeRequest, CfaL2SetRxMaskRequest,
    VnicAllocAnswer, VnicAllocRequest, VnicCfgRequest, VnicFreeRequest, VnicQcapsAnswer,
    VnicRssCfgRequest, VnicRssCosLbCtxAllocAnswer, VnicRssCosLbCtxFreeRequest, l2_filter_enables,
    vnic_enables,
};
use std::collections::BTreeMap;
use zerocopy::FromZeros;

/// The most of each kind of object.
const MOST: u32 = 512;
/// The longest frame's bytes after the header.
const LONGEST_FRAME: u16 = 9618;

/// The smallest number that none of `all` has.
fn free<T>(all: &BTreeMap<u32, T>) -> Result<u32, ErrorCode> {
    (0..MOST).find(|number| !all.contains_key(number)).ok_or(ErrorCode::ResourceAllocError)
}

impl Netxtreme {
    pub(super) fn interface_capabilities(&self) -> Answered {
        let mut can = VnicQcapsAnswer::new_zeroed();
        can.mru = LONGEST_FRAME.into();
        answer(&can)
    }

    pub(super) fn allocate_interface(&mut self, _: &VnicAllocRequest) -> Answered {
        let number = free(&self.frames.interfaces)?;
        self.frames.interfaces.insert(number, Interface::default());
        let mut made = VnicAllocAnswer::new_zeroed();
        made.vnic_id = number.into();
        answer(&made)
    }

    pub(super) fn free_interface(&mut self, request: &VnicFreeRequest) -> Answered {
        let number = request.vnic_id.get();
        self.frames.interfaces.remove(&number).ok_or(ErrorCode::InvalidParams)?;
        done()
    }

    pub(super) fn configure_interface(&mut self, request: &VnicCfgRequest) -> Answered {
        let number = u32::from(request.vnic_id.get());
        let interface = self.frames.interfaces.get_mut(&number);
        let interface = interface.ok_or(ErrorCode::InvalidParams)?;
        let asked = request.enables.get();
        if asked & vnic_enables::DEFAULT_RX_RING_ID != 0 {
            interface.ring = Some(request.default_rx_ring_id.get());
        }
        if asked & vnic_enables::DEFAULT_CMPL_RING_ID != 0 {
            interface.completions = Some(request.default_cmpl_ring_id.get());
        }
        done()
    }

    pub(super) fn allocate_scaling(&mut self) -> Answered {
        let number = free(&self.frames.scaling)?;
        self.frames.scaling.insert(number, ());
        let mut made = VnicRssCosLbCtxAllocAnswer::new_zeroed();
        made.rss_cos_lb_ctx_id = (number as u16).into();
        answer(&made)
    }

    pub(super) fn free_scaling(&mut self, request: &VnicRssCosLbCtxFreeRequest) -> Answered {
        let number = request.rss_cos_lb_ctx_id.get().into();
        self.frames.scaling.remove(&number).ok_or(ErrorCode::InvalidParams)?;
        done()
    }

    /// The first pair of the table is where the frames go: nothing is hashed.
    pub(super) fn configure_scaling(&mut self, request: &VnicRssCfgRequest) -> Answered {
        let number = u32::from(request.vnic_id.get());
        let interface = self.frames.interfaces.get_mut(&number);
        let interface = interface.ok_or(ErrorCode::InvalidParams)?;
        if request.hash_type.get() == 0 || request.ring_table_pair_index != 0 {
            return done();
        }
        let mut pair = [0; 4];
        let table = request.ring_grp_tbl_addr.get();
        if let Err(fault) = self.memory.space().read(table, &mut pair) {
            self.log.note(format_args!("lost access: a table of receive rings: {fault}"));
            return Err(ErrorCode::InvalidParams);
        }
        let [ring, high, completions, top] = pair;
        interface.ring = Some(u16::from_le_bytes([ring, high]));
        interface.completions = Some(u16::from_le_bytes([completions, top]));
        done()
    }

    pub(super) fn allocate_filter(&mut self, request: &CfaL2FilterAllocRequest) -> Answered {
        let asked = request.enables.get();
        let interface = u32::from(request.dst_id.get());
        let there = asked & l2_filter_enables::DST_ID != 0
            && self.frames.interfaces.contains_key(&interface);
        if !there {
            return Err(ErrorCode::InvalidParams);
        }
        let mask = match asked & l2_filter_enables::L2_ADDR_MASK {
            0 => [0xff; 6],
            _ => request.l2_addr_mask,
        };
        let number = free(&self.frames.filters)?;
        self.frames.filters.insert(number, Filter { address: request.l2_addr, mask, interface });
        let mut made = CfaL2FilterAllocAnswer::new_zeroed();
        made.l2_filter_id = u64::from(number).into();
        made.flow_id = number.into();
        answer(&made)
    }

    pub(super) fn free_filter(&mut self, request: &CfaL2FilterFreeRequest) -> Answered {
        let number = u32::try_from(request.l2_filter_id.get()).ok();
        let filter = number.and_then(|number| self.frames.filters.remove(&number));
        filter.ok_or(ErrorCode::InvalidParams)?;
        done()
    }

    pub(super) fn set_receive_mask(&mut self, request: &CfaL2SetRxMaskRequest) -> Answered {
        /// Addresses of a table.
        const MOST_ADDRESSES: u32 = 256;
        /// Bytes of one.
        const ADDRESS: usize = 6;
        let count = request.num_mc_entries.get();
        if count > MOST_ADDRESSES {
            return Err(ErrorCode::InvalidParams);
        }
        let mut table = vec![0; count as usize * ADDRESS];
        if let Err(fault) = self.memory.space().read(request.mc_tbl_addr.get(), &mut table) {
            self.log.note(format_args!("lost access: a table of addresses: {fault}"));
            return Err(ErrorCode::InvalidParams);
        }
        let interface = self.frames.interfaces.get_mut(&request.vnic_id.get());
        let interface = interface.ok_or(ErrorCode::InvalidParams)?;
        interface.mask = request.mask.get();
        interface.groups = table.as_chunks::<ADDRESS>().0.to_vec();
        done()
    }
}
