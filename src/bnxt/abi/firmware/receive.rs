//! Which frames come in, and where to.
//!
//! A virtual NIC (VNIC) chooses the receive ring of a frame. A filter by Ethernet address chooses the
//! VNIC.
//!
//! From Linux's `bnxt_hsi.h`. All little-endian.

use super::{AnswerHeader, EmptyAnswer, RequestHeader, RequestType};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Makes a VNIC (`struct hwrm_vnic_alloc_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicAllocRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// [`VNIC_DEFAULT`], or 0.
    pub flags: U32,
    unused0: [u8; 4],
}

layout!(VnicAllocRequest: size 24, align 1, {
    header: 0, flags: 16,
});

/// The VNIC (`struct hwrm_vnic_alloc_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicAllocAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// Its number.
    pub vnic_id: U32,
    unused0: [u8; 3],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(VnicAllocAnswer: size 16, align 1, {
    header: 0, vnic_id: 8, valid: 15,
});

request!(VnicAllocRequest: VnicAlloc => VnicAllocAnswer);

/// Takes a VNIC away (`struct hwrm_vnic_free_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicFreeRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// Its number.
    pub vnic_id: U32,
    unused0: [u8; 4],
}

layout!(VnicFreeRequest: size 24, align 1, {
    header: 0, vnic_id: 16,
});

request!(VnicFreeRequest: VnicFree => EmptyAnswer);

/// Sets a VNIC up (`struct hwrm_vnic_cfg_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicCfgRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// What it takes ([`vnic_flags`]).
    pub flags: U32,
    /// Which of the fields count ([`vnic_enables`]).
    pub enables: U32,
    /// Its number.
    pub vnic_id: U16,
    /// Its group of rings.
    pub dflt_ring_grp: U16,
    /// Its context of receive-side scaling.
    pub rss_rule: U16,
    unused0: [u8; 4],
    /// Bytes of the longest frame.
    pub mru: U16,
    /// Its receive ring.
    pub default_rx_ring_id: U16,
    /// The completion ring of that one.
    pub default_cmpl_ring_id: U16,
    unused1: [u8; 8],
}

layout!(VnicCfgRequest: size 48, align 1, {
    header: 0, flags: 16, enables: 20, vnic_id: 24, dflt_ring_grp: 26, rss_rule: 28, mru: 34, default_rx_ring_id: 36, default_cmpl_ring_id: 38,
});

request!(VnicCfgRequest: VnicCfg => EmptyAnswer);

/// Asks what VNICs can (`struct hwrm_vnic_qcaps_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicQcapsRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// 0.
    pub enables: U32,
    unused0: [u8; 4],
}

layout!(VnicQcapsRequest: size 24, align 1, {
    header: 0, enables: 16,
});

/// What VNICs can (`struct hwrm_vnic_qcaps_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicQcapsAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// Bytes of the longest frame.
    pub mru: U16,
    unused0: [u8; 2],
    /// What they can.
    pub flags: U32,
    /// The most frames that are put together; 0 for none, and shorter statistics.
    pub max_aggs_supported: U16,
    unused1: [u8; 5],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(VnicQcapsAnswer: size 24, align 1, {
    header: 0, mru: 8, flags: 12, max_aggs_supported: 16, valid: 23,
});

request!(VnicQcapsRequest: VnicQcaps => VnicQcapsAnswer);

/// Makes a context of receive-side scaling (`struct hwrm_vnic_rss_cos_lb_ctx_alloc_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicRssCosLbCtxAllocRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
}

layout!(VnicRssCosLbCtxAllocRequest: size 16, align 1, {
    header: 0,
});

/// The context (`struct hwrm_vnic_rss_cos_lb_ctx_alloc_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicRssCosLbCtxAllocAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// Its number.
    pub rss_cos_lb_ctx_id: U16,
    unused0: [u8; 5],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(VnicRssCosLbCtxAllocAnswer: size 16, align 1, {
    header: 0, rss_cos_lb_ctx_id: 8, valid: 15,
});

request!(VnicRssCosLbCtxAllocRequest: VnicRssCosLbCtxAlloc => VnicRssCosLbCtxAllocAnswer);

/// Takes a context of receive-side scaling away (`struct hwrm_vnic_rss_cos_lb_ctx_free_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicRssCosLbCtxFreeRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// Its number.
    pub rss_cos_lb_ctx_id: U16,
    unused0: [u8; 6],
}

layout!(VnicRssCosLbCtxFreeRequest: size 24, align 1, {
    header: 0, rss_cos_lb_ctx_id: 16,
});

request!(VnicRssCosLbCtxFreeRequest: VnicRssCosLbCtxFree => EmptyAnswer);

/// Sets receive-side scaling up (`struct hwrm_vnic_rss_cfg_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VnicRssCfgRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// What is hashed; 0 for nothing.
    pub hash_type: U32,
    /// The VNIC.
    pub vnic_id: U16,
    /// Which 64 pairs of the table these are.
    pub ring_table_pair_index: u8,
    /// How it is hashed.
    pub hash_mode_flags: u8,
    /// The table: receive ring and completion ring in turn, 16 bits each.
    pub ring_grp_tbl_addr: U64,
    /// The key.
    pub hash_key_tbl_addr: U64,
    /// The context.
    pub rss_ctx_idx: U16,
    unused0: [u8; 6],
}

layout!(VnicRssCfgRequest: size 48, align 1, {
    header: 0, hash_type: 16, vnic_id: 20, ring_table_pair_index: 22, hash_mode_flags: 23, ring_grp_tbl_addr: 24, hash_key_tbl_addr: 32, rss_ctx_idx: 40,
});

request!(VnicRssCfgRequest: VnicRssCfg => EmptyAnswer);

/// Lets frames in (`struct hwrm_cfa_l2_filter_alloc_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CfaL2FilterAllocRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// Which way ([`L2_FILTER_PATH_RX`]), and more.
    pub flags: U32,
    /// Which of the fields count ([`l2_filter_enables`]).
    pub enables: U32,
    /// The Ethernet address.
    pub l2_addr: [u8; 6],
    unused0: [u8; 2],
    /// The bits of it that count.
    pub l2_addr_mask: [u8; 6],
    unused1: [u8; 40],
    /// The VNIC.
    pub dst_id: U16,
    unused2: [u8; 16],
}

layout!(CfaL2FilterAllocRequest: size 96, align 1, {
    header: 0, flags: 16, enables: 20, l2_addr: 24, l2_addr_mask: 32, dst_id: 78,
});

/// The filter (`struct hwrm_cfa_l2_filter_alloc_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CfaL2FilterAllocAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// Its number.
    pub l2_filter_id: U64,
    /// The number of its flow.
    pub flow_id: U32,
    unused0: [u8; 3],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(CfaL2FilterAllocAnswer: size 24, align 1, {
    header: 0, l2_filter_id: 8, flow_id: 16, valid: 23,
});

request!(CfaL2FilterAllocRequest: CfaL2FilterAlloc => CfaL2FilterAllocAnswer);

/// Lets frames in no longer (`struct hwrm_cfa_l2_filter_free_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CfaL2FilterFreeRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The number of the filter.
    pub l2_filter_id: U64,
}

layout!(CfaL2FilterFreeRequest: size 24, align 1, {
    header: 0, l2_filter_id: 16,
});

request!(CfaL2FilterFreeRequest: CfaL2FilterFree => EmptyAnswer);

/// Lets frames in that no filter names (`struct hwrm_cfa_l2_set_rx_mask_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CfaL2SetRxMaskRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The VNIC.
    pub vnic_id: U32,
    /// Which ([`rx_mask`]).
    pub mask: U32,
    /// The table of multicast addresses.
    pub mc_tbl_addr: U64,
    /// How many there are.
    pub num_mc_entries: U32,
    unused0: [u8; 20],
}

layout!(CfaL2SetRxMaskRequest: size 56, align 1, {
    header: 0, vnic_id: 16, mask: 20, mc_tbl_addr: 24, num_mc_entries: 32,
});

request!(CfaL2SetRxMaskRequest: CfaL2SetRxMask => EmptyAnswer);

/// The VNIC of frames that nothing else chooses one for ([`VnicAllocRequest::flags`],
/// `VNIC_ALLOC_REQ_FLAGS_DEFAULT`).
pub const VNIC_DEFAULT: u32 = 1;
/// Frames that come in ([`CfaL2FilterAllocRequest::flags`], `CFA_L2_FILTER_ALLOC_REQ_FLAGS_PATH_RX`).
pub const L2_FILTER_PATH_RX: u32 = 0x1;
/// The outer header ([`CfaL2FilterAllocRequest::flags`], `CFA_L2_FILTER_ALLOC_REQ_FLAGS_OUTERMOST`).
pub const L2_FILTER_OUTERMOST: u32 = 0x8;

/// Bits of [`VnicCfgRequest::flags`].
pub mod vnic_flags {
    numbers! { u32;
        /// The default one.
        DEFAULT = 0x1, "VNIC_CFG_REQ_FLAGS_DEFAULT";
        /// RoCE has one of its own.
        ROCE_DUAL_VNIC_MODE = 0x8, "VNIC_CFG_REQ_FLAGS_ROCE_DUAL_VNIC_MODE";
        /// RoCE only.
        ROCE_ONLY_VNIC_MODE = 0x10, "VNIC_CFG_REQ_FLAGS_ROCE_ONLY_VNIC_MODE";
    }
}

/// Bits of [`VnicCfgRequest::enables`].
pub mod vnic_enables {
    numbers! { u32;
        /// `dflt_ring_grp`.
        DFLT_RING_GRP = 0x1, "VNIC_CFG_REQ_ENABLES_DFLT_RING_GRP";
        /// `rss_rule`.
        RSS_RULE = 0x2, "VNIC_CFG_REQ_ENABLES_RSS_RULE";
        /// `mru`.
        MRU = 0x10, "VNIC_CFG_REQ_ENABLES_MRU";
        /// `default_rx_ring_id`.
        DEFAULT_RX_RING_ID = 0x20, "VNIC_CFG_REQ_ENABLES_DEFAULT_RX_RING_ID";
        /// `default_cmpl_ring_id`.
        DEFAULT_CMPL_RING_ID = 0x40, "VNIC_CFG_REQ_ENABLES_DEFAULT_CMPL_RING_ID";
    }
}

/// Bits of [`CfaL2FilterAllocRequest::enables`].
pub mod l2_filter_enables {
    numbers! { u32;
        /// `l2_addr`.
        L2_ADDR = 0x1, "CFA_L2_FILTER_ALLOC_REQ_ENABLES_L2_ADDR";
        /// `l2_addr_mask`.
        L2_ADDR_MASK = 0x2, "CFA_L2_FILTER_ALLOC_REQ_ENABLES_L2_ADDR_MASK";
        /// `dst_id`.
        DST_ID = 0x8000, "CFA_L2_FILTER_ALLOC_REQ_ENABLES_DST_ID";
    }
}

/// Bits of [`CfaL2SetRxMaskRequest::mask`].
pub mod rx_mask {
    numbers! { u32;
        /// Multicast addresses of the table.
        MCAST = 0x2, "CFA_L2_SET_RX_MASK_REQ_MASK_MCAST";
        /// All multicast addresses.
        ALL_MCAST = 0x4, "CFA_L2_SET_RX_MASK_REQ_MASK_ALL_MCAST";
        /// Broadcasts.
        BCAST = 0x8, "CFA_L2_SET_RX_MASK_REQ_MASK_BCAST";
        /// Everything.
        PROMISCUOUS = 0x10, "CFA_L2_SET_RX_MASK_REQ_MASK_PROMISCUOUS";
    }
}
