//! The function: its reset, what it can, what it was given, and who drives it.
//!
//! From Linux's `bnxt_hsi.h`. All little-endian.

use super::{AnswerHeader, EmptyAnswer, RequestHeader, RequestType};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Resets the function: everything that it had is gone, and its backing store is no longer used
/// (`struct hwrm_func_reset_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncResetRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// Whether `vf_id` counts: 0.
    pub enables: U32,
    /// A virtual function.
    pub vf_id: U16,
    /// How much: 0 is the function and all its virtual ones.
    pub func_reset_level: u8,
    unused0: [u8; 1],
}

layout!(FuncResetRequest: size 24, align 1, {
    header: 0, enables: 16, vf_id: 20, func_reset_level: 22,
});

request!(FuncResetRequest: FuncReset => EmptyAnswer);

/// Asks what a function can (`struct hwrm_func_qcaps_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncQcapsRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The function; 0xffff is the one that asks.
    pub fid: U16,
    unused0: [u8; 6],
}

layout!(FuncQcapsRequest: size 24, align 1, {
    header: 0, fid: 16,
});

/// What a function can (`struct hwrm_func_qcaps_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncQcapsAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// The number of the function.
    pub fid: U16,
    /// The port that it is on.
    pub port_id: U16,
    /// What it can ([`func_caps`]).
    pub flags: U32,
    /// Its Ethernet address, as on the wire.
    pub mac_address: [u8; 6],
    /// The most contexts of receive-side scaling.
    pub max_rsscos_ctx: U16,
    /// The most completion rings.
    pub max_cmpl_rings: U16,
    /// The most transmit rings.
    pub max_tx_rings: U16,
    /// The most receive rings.
    pub max_rx_rings: U16,
    /// The most filters by Ethernet address.
    pub max_l2_ctxs: U16,
    /// The most virtual NICs, which choose a receive ring.
    pub max_vnics: U16,
    /// The first virtual function.
    pub first_vf_id: U16,
    /// The most virtual functions.
    pub max_vfs: U16,
    /// The most statistics contexts.
    pub max_stat_ctx: U16,
    unused0: [u8; 24],
    /// The most multicast filters.
    pub max_mcast_filters: U32,
    unused1: [u8; 4],
    /// The most groups of rings.
    pub max_hw_ring_grps: U32,
    unused2: [u8; 4],
    /// More that it can ([`func_caps_ext`]).
    pub flags_ext: U32,
    unused3: [u8; 4],
    /// More that it can ([`func_caps_ext2`]).
    pub flags_ext2: U32,
    unused4: [u8; 14],
    /// The most segments of a large send; 0 says nothing.
    pub max_tso_segs: U16,
    unused5: [u8; 24],
    /// More that it can ([`func_caps_ext3`]).
    pub flags_ext3: U32,
    unused6: [u8; 7],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(FuncQcapsAnswer: size 144, align 1, {
    header: 0, fid: 8, port_id: 10, flags: 12, mac_address: 16, max_rsscos_ctx: 22, max_cmpl_rings: 24, max_tx_rings: 26, max_rx_rings: 28, max_l2_ctxs: 30, max_vnics: 32, first_vf_id: 34, max_vfs: 36, max_stat_ctx: 38, max_mcast_filters: 64, max_hw_ring_grps: 72, flags_ext: 80, flags_ext2: 88, max_tso_segs: 106, flags_ext3: 132, valid: 143,
});

request!(FuncQcapsRequest: FuncQcaps => FuncQcapsAnswer);

/// Bits of [`FuncQcapsAnswer::flags`].
pub mod func_caps {
    numbers! { u32;
        /// RoCE version 1.
        ROCE_V1_SUPPORTED = 0x8, "FUNC_QCAPS_RESP_FLAGS_ROCE_V1_SUPPORTED";
        /// RoCE version 2.
        ROCE_V2_SUPPORTED = 0x10, "FUNC_QCAPS_RESP_FLAGS_ROCE_V2_SUPPORTED";
        /// Doorbell pages that combine writes.
        WCB_PUSH_MODE = 0x10_0000, "FUNC_QCAPS_RESP_FLAGS_WCB_PUSH_MODE";
        /// The firmware tells of its own death.
        ERROR_RECOVERY_CAPABLE = 0x80_0000, "FUNC_QCAPS_RESP_FLAGS_ERROR_RECOVERY_CAPABLE";
    }
}

/// Bits of [`FuncQcapsAnswer::flags_ext`].
pub mod func_caps_ext {
    numbers! { u32;
        /// The backing store is told of by [`context`](super::super::context)'s requests.
        BS_V2_SUPPORTED = 0x400_0000, "FUNC_QCAPS_RESP_FLAGS_EXT_BS_V2_SUPPORTED";
        /// And by no others.
        BS_V2_REQUIRED = 0x800_0000, "FUNC_QCAPS_RESP_FLAGS_EXT_BS_V2_REQUIRED";
    }
}

/// Bits of [`FuncQcapsAnswer::flags_ext2`].
pub mod func_caps_ext2 {
    numbers! { u32;
        /// Doorbells have to be paced ([`FuncDbrPacingQcfgAnswer`](super::FuncDbrPacingQcfgAnswer)).
        DBR_PACING_EXT_SUPPORTED = 0x8, "FUNC_QCAPS_RESP_FLAGS_EXT2_DBR_PACING_EXT_SUPPORTED";
        /// The same, by an older rule.
        DBR_PACING_V0_SUPPORTED = 0x100, "FUNC_QCAPS_RESP_FLAGS_EXT2_DBR_PACING_V0_SUPPORTED";
        /// The largest numbers of context entries are the driver's limits.
        SW_MAX_RESOURCE_LIMITS_SUPPORTED = 0x80_0000, "FUNC_QCAPS_RESP_FLAGS_EXT2_SW_MAX_RESOURCE_LIMITS_SUPPORTED";
    }
}

/// Bits of [`FuncQcapsAnswer::flags_ext3`].
pub mod func_caps_ext3 {
    numbers! { u32;
        /// Nothing is received without a filter.
        REQUIRE_L2_FILTER = 0x2, "FUNC_QCAPS_RESP_FLAGS_EXT3_REQUIRE_L2_FILTER";
    }
}

/// Asks what a function was given (`struct hwrm_func_qcfg_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncQcfgRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The function; 0xffff is the one that asks.
    pub fid: U16,
    unused0: [u8; 6],
}

layout!(FuncQcfgRequest: size 24, align 1, {
    header: 0, fid: 16,
});

/// What a function was given, and where its doorbells are (`struct hwrm_func_qcfg_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncQcfgAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// The number of the function.
    pub fid: U16,
    /// The port that it is on.
    pub port_id: U16,
    /// Its VLAN; 0 for none.
    pub vlan: U16,
    /// How it was set up.
    pub flags: U16,
    /// Its Ethernet address, as on the wire.
    pub mac_address: [u8; 6],
    /// Its place on the bus.
    pub pci_id: U16,
    /// Contexts of receive-side scaling.
    pub alloc_rsscos_ctx: U16,
    /// Completion rings.
    pub alloc_cmpl_rings: U16,
    /// Transmit rings.
    pub alloc_tx_rings: U16,
    /// Receive rings.
    pub alloc_rx_rings: U16,
    /// Filters by Ethernet address.
    pub alloc_l2_ctx: U16,
    /// Virtual NICs.
    pub alloc_vnics: U16,
    unused0: [u8; 2],
    /// Bytes of the longest frame that comes in.
    pub mru: U16,
    unused1: [u8; 6],
    /// The largest MTU; 0 says nothing.
    pub max_mtu_configured: U16,
    unused2: [u8; 16],
    /// Groups of rings.
    pub alloc_hw_ring_grps: U32,
    unused3: [u8; 2],
    /// Statistics contexts.
    pub alloc_stat_ctx: U16,
    /// Interrupt vectors.
    pub alloc_msix: U16,
    unused4: [u8; 2],
    /// KiB of the doorbell BAR before the pages of RoCE.
    pub l2_doorbell_bar_size_kb: U16,
    unused5: [u8; 6],
    /// KiB before the page of Ethernet and notification doorbells.
    pub legacy_l2_db_size_kb: U16,
    unused6: [u8; 4],
    /// The virtual NIC of RoCE, if there is one.
    pub roce_vnic_id: U16,
    unused7: [u8; 67],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(FuncQcfgAnswer: size 160, align 1, {
    header: 0, fid: 8, port_id: 10, vlan: 12, flags: 14, mac_address: 16, pci_id: 22, alloc_rsscos_ctx: 24, alloc_cmpl_rings: 26, alloc_tx_rings: 28, alloc_rx_rings: 30, alloc_l2_ctx: 32, alloc_vnics: 34, mru: 38, max_mtu_configured: 46, alloc_hw_ring_grps: 64, alloc_stat_ctx: 70, alloc_msix: 72, l2_doorbell_bar_size_kb: 76, legacy_l2_db_size_kb: 84, roce_vnic_id: 90, valid: 159,
});

request!(FuncQcfgRequest: FuncQcfg => FuncQcfgAnswer);

/// Reserves resources and sets the function up (`struct hwrm_func_cfg_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncCfgRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The function; 0xffff is the one that asks.
    pub fid: U16,
    /// Interrupt vectors.
    pub num_msix: U16,
    /// What else is to be done: 0, or only to say whether it would be.
    pub flags: U32,
    /// Which of the fields count ([`func_cfg_enables`]).
    pub enables: U32,
    unused0: [u8; 2],
    /// Bytes of the longest frame that comes in.
    pub mru: U16,
    /// Contexts of receive-side scaling.
    pub num_rsscos_ctxs: U16,
    /// Completion rings.
    pub num_cmpl_rings: U16,
    /// Transmit rings.
    pub num_tx_rings: U16,
    /// Receive rings.
    pub num_rx_rings: U16,
    /// Filters by Ethernet address.
    pub num_l2_ctxs: U16,
    /// Virtual NICs.
    pub num_vnics: U16,
    /// Statistics contexts.
    pub num_stat_ctxs: U16,
    /// Groups of rings.
    pub num_hw_ring_grps: U16,
    unused1: [u8; 32],
    /// The ring that asynchronous events go to.
    pub async_event_cr: U16,
    unused2: [u8; 3],
    /// The cache line, in bits 0 and 1: 0 for 64 bytes, 1 for 128.
    pub options: u8,
    unused3: [u8; 74],
}

layout!(FuncCfgRequest: size 160, align 1, {
    header: 0, fid: 16, num_msix: 18, flags: 20, enables: 24, mru: 30, num_rsscos_ctxs: 32, num_cmpl_rings: 34, num_tx_rings: 36, num_rx_rings: 38, num_l2_ctxs: 40, num_vnics: 42, num_stat_ctxs: 44, num_hw_ring_grps: 46, async_event_cr: 80, options: 85,
});

request!(FuncCfgRequest: FuncCfg => EmptyAnswer);

/// Bits of [`FuncCfgRequest::enables`].
pub mod func_cfg_enables {
    numbers! { u32;
        /// `num_rsscos_ctxs`.
        NUM_RSSCOS_CTXS = 0x4, "FUNC_CFG_REQ_ENABLES_NUM_RSSCOS_CTXS";
        /// `num_cmpl_rings`.
        NUM_CMPL_RINGS = 0x8, "FUNC_CFG_REQ_ENABLES_NUM_CMPL_RINGS";
        /// `num_tx_rings`.
        NUM_TX_RINGS = 0x10, "FUNC_CFG_REQ_ENABLES_NUM_TX_RINGS";
        /// `num_rx_rings`.
        NUM_RX_RINGS = 0x20, "FUNC_CFG_REQ_ENABLES_NUM_RX_RINGS";
        /// `num_l2_ctxs`.
        NUM_L2_CTXS = 0x40, "FUNC_CFG_REQ_ENABLES_NUM_L2_CTXS";
        /// `num_vnics`.
        NUM_VNICS = 0x80, "FUNC_CFG_REQ_ENABLES_NUM_VNICS";
        /// `num_stat_ctxs`.
        NUM_STAT_CTXS = 0x100, "FUNC_CFG_REQ_ENABLES_NUM_STAT_CTXS";
        /// `async_event_cr`.
        ASYNC_EVENT_CR = 0x4000, "FUNC_CFG_REQ_ENABLES_ASYNC_EVENT_CR";
        /// `options`, for the cache line.
        CACHE_LINESIZE = 0x10_0000, "FUNC_CFG_REQ_ENABLES_CACHE_LINESIZE";
        /// `num_msix`.
        NUM_MSIX = 0x20_0000, "FUNC_CFG_REQ_ENABLES_NUM_MSIX";
    }
}

/// Bits of [`FuncCfgRequest::flags`] by which nothing is reserved: the answer only says whether it
/// would be.
pub const FUNC_CFG_ASSETS_TESTS: u32 =
    0x2000 | 0x4000 | 0x8000 | 0x1_0000 | 0x2_0000 | 0x4_0000 | 0x8_0000 | 0x10_0000 | 0x80_0000;

/// Asks for the bounds of what can be reserved (`struct hwrm_func_resource_qcaps_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncResourceQcapsRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The function; 0xffff is the one that asks.
    pub fid: U16,
    unused0: [u8; 6],
}

layout!(FuncResourceQcapsRequest: size 24, align 1, {
    header: 0, fid: 16,
});

/// The bounds of what can be reserved (`struct hwrm_func_resource_qcaps_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncResourceQcapsAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// The most virtual functions.
    pub max_vfs: U16,
    /// The most interrupt vectors, and notification rings.
    pub max_msix: U16,
    /// How virtual functions are given theirs.
    pub vf_reservation_strategy: U16,
    /// Contexts of receive-side scaling that it has in any case.
    pub min_rsscos_ctx: U16,
    /// The most.
    pub max_rsscos_ctx: U16,
    /// Completion rings that it has in any case.
    pub min_cmpl_rings: U16,
    /// The most.
    pub max_cmpl_rings: U16,
    /// Transmit rings that it has in any case.
    pub min_tx_rings: U16,
    /// The most.
    pub max_tx_rings: U16,
    /// Receive rings that it has in any case.
    pub min_rx_rings: U16,
    /// The most.
    pub max_rx_rings: U16,
    /// Filters by Ethernet address that it has in any case.
    pub min_l2_ctxs: U16,
    /// The most.
    pub max_l2_ctxs: U16,
    /// Virtual NICs that it has in any case.
    pub min_vnics: U16,
    /// The most.
    pub max_vnics: U16,
    /// Statistics contexts that it has in any case.
    pub min_stat_ctx: U16,
    /// The most.
    pub max_stat_ctx: U16,
    /// Groups of rings that it has in any case.
    pub min_hw_ring_grps: U16,
    /// The most.
    pub max_hw_ring_grps: U16,
    /// The most inputs of the transmit scheduler.
    pub max_tx_scheduler_inputs: U16,
    unused0: [u8; 39],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(FuncResourceQcapsAnswer: size 88, align 1, {
    header: 0, max_vfs: 8, max_msix: 10, vf_reservation_strategy: 12, min_rsscos_ctx: 14, max_rsscos_ctx: 16, min_cmpl_rings: 18, max_cmpl_rings: 20, min_tx_rings: 22, max_tx_rings: 24, min_rx_rings: 26, max_rx_rings: 28, min_l2_ctxs: 30, max_l2_ctxs: 32, min_vnics: 34, max_vnics: 36, min_stat_ctx: 38, max_stat_ctx: 40, min_hw_ring_grps: 42, max_hw_ring_grps: 44, max_tx_scheduler_inputs: 46, valid: 87,
});

request!(FuncResourceQcapsRequest: FuncResourceQcaps => FuncResourceQcapsAnswer);

/// Tells the firmware who drives the function (`struct hwrm_func_drv_rgtr_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncDrvRgtrRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// How versions are told ([`DRV_RGTR_16BIT_VER_MODE`]).
    pub flags: U32,
    /// Which of the fields count ([`drv_rgtr_enables`]).
    pub enables: U32,
    /// The system: [`OS_TYPE_LINUX`].
    pub os_type: U16,
    /// The version of the driver.
    pub ver_maj_8b: u8,
    /// Its minor number.
    pub ver_min_8b: u8,
    /// Its update.
    pub ver_upd_8b: u8,
    unused0: [u8; 43],
    /// A bit for each asynchronous event to be told of.
    pub async_event_fwd: [U32; 8],
    /// The version of the driver, in 16 bits.
    pub ver_maj: U16,
    /// Its minor number.
    pub ver_min: U16,
    /// Its update.
    pub ver_upd: U16,
    /// Its patch.
    pub ver_patch: U16,
}

layout!(FuncDrvRgtrRequest: size 112, align 1, {
    header: 0, flags: 16, enables: 20, os_type: 24, ver_maj_8b: 26, ver_min_8b: 27, ver_upd_8b: 28, async_event_fwd: 72, ver_maj: 104, ver_min: 106, ver_upd: 108, ver_patch: 110,
});

/// What follows from it (`struct hwrm_func_drv_rgtr_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncDrvRgtrAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// Whether the interface has to be told up and down (1).
    pub flags: U32,
    unused0: [u8; 3],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(FuncDrvRgtrAnswer: size 16, align 1, {
    header: 0, flags: 8, valid: 15,
});

request!(FuncDrvRgtrRequest: FuncDrvRgtr => FuncDrvRgtrAnswer);

/// Versions have 16 bits ([`FuncDrvRgtrRequest::flags`], `FUNC_DRV_RGTR_REQ_FLAGS_16BIT_VER_MODE`).
pub const DRV_RGTR_16BIT_VER_MODE: u32 = 0x4;
/// Linux ([`FuncDrvRgtrRequest::os_type`], `FUNC_DRV_RGTR_REQ_OS_TYPE_LINUX`).
pub const OS_TYPE_LINUX: u16 = 0x24;

/// Bits of [`FuncDrvRgtrRequest::enables`].
pub mod drv_rgtr_enables {
    numbers! { u32;
        /// `os_type`.
        OS_TYPE = 0x1, "FUNC_DRV_RGTR_REQ_ENABLES_OS_TYPE";
        /// The version.
        VER = 0x2, "FUNC_DRV_RGTR_REQ_ENABLES_VER";
        /// `async_event_fwd`.
        ASYNC_EVENT_FWD = 0x10, "FUNC_DRV_RGTR_REQ_ENABLES_ASYNC_EVENT_FWD";
    }
}

/// Tells the firmware that nobody drives the function any more. The backing store is free after its
/// answer (`struct hwrm_func_drv_unrgtr_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncDrvUnrgtrRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// 0.
    pub flags: U32,
    unused0: [u8; 4],
}

layout!(FuncDrvUnrgtrRequest: size 24, align 1, {
    header: 0, flags: 16,
});

request!(FuncDrvUnrgtrRequest: FuncDrvUnrgtr => EmptyAnswer);

/// Asks how doorbells are to be paced (`struct hwrm_func_dbr_pacing_qcfg_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncDbrPacingQcfgRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
}

layout!(FuncDbrPacingQcfgRequest: size 16, align 1, {
    header: 0,
});

/// How doorbells are to be paced (`struct hwrm_func_dbr_pacing_qcfg_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncDbrPacingQcfgAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// Whether the firmware can be told of a queue that runs over.
    pub flags: u8,
    unused0: [u8; 7],
    /// The register that says how full the queue of doorbells is: an address space in bits 0 and 1,
    /// an offset above.
    pub dbr_stat_db_fifo_reg: U32,
    /// Its bits of the watermark.
    pub dbr_stat_db_fifo_reg_watermark_mask: U32,
    /// Where they begin.
    pub dbr_stat_db_fifo_reg_watermark_shift: u8,
    unused1: [u8; 3],
    /// Its bits of the room that is left.
    pub dbr_stat_db_fifo_reg_fifo_room_mask: U32,
    /// Where they begin.
    pub dbr_stat_db_fifo_reg_fifo_room_shift: u8,
    unused2: [u8; 3],
    /// The register that asks for an event.
    pub dbr_throttling_aeq_arm_reg: U32,
    /// What to write there.
    pub dbr_throttling_aeq_arm_reg_val: u8,
    unused3: [u8; 3],
    /// Doorbells that the queue holds.
    pub dbr_stat_db_max_fifo_depth: U32,
    /// The notification ring of that event.
    pub primary_nq_id: U32,
    /// How full the queue is when pacing begins.
    pub pacing_threshold: U32,
    unused4: [u8; 7],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(FuncDbrPacingQcfgAnswer: size 64, align 1, {
    header: 0, flags: 8, dbr_stat_db_fifo_reg: 16, dbr_stat_db_fifo_reg_watermark_mask: 20, dbr_stat_db_fifo_reg_watermark_shift: 24, dbr_stat_db_fifo_reg_fifo_room_mask: 28, dbr_stat_db_fifo_reg_fifo_room_shift: 32, dbr_throttling_aeq_arm_reg: 36, dbr_throttling_aeq_arm_reg_val: 40, dbr_stat_db_max_fifo_depth: 44, primary_nq_id: 48, pacing_threshold: 52, valid: 63,
});

request!(FuncDbrPacingQcfgRequest: FuncDbrPacingQcfg => FuncDbrPacingQcfgAnswer);
