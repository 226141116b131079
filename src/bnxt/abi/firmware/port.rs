//! The port: its queues and its link.
//!
//! From Linux's `bnxt_hsi.h`. All little-endian.

use super::{AnswerHeader, EmptyAnswer, RequestHeader, RequestType};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Asks for the queues of a port (`struct hwrm_queue_qportcfg_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct QueueQportcfgRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// 0 for those that transmit, 1 for those that receive.
    pub flags: U32,
    /// The port.
    pub port_id: U16,
    unused0: [u8; 2],
}

layout!(QueueQportcfgRequest: size 24, align 1, {
    header: 0, flags: 16, port_id: 20,
});

/// The queues of a port (`struct hwrm_queue_qportcfg_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct QueueQportcfgAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// Queues that can be used. 0 is an error.
    pub max_configurable_queues: u8,
    /// Those of them without loss.
    pub max_configurable_lossless_queues: u8,
    unused0: [u8; 5],
    /// For each queue its number and its service profile, in turn; 0xff for none.
    pub queues: [u8; 16],
    unused1: [u8; 136],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(QueueQportcfgAnswer: size 168, align 1, {
    header: 0, max_configurable_queues: 8, max_configurable_lossless_queues: 9, queues: 15, valid: 167,
});

request!(QueueQportcfgRequest: QueueQportcfg => QueueQportcfgAnswer);

/// Asks what the link can (`struct hwrm_port_phy_qcaps_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PortPhyQcapsRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The port.
    pub port_id: U16,
    unused0: [u8; 6],
}

layout!(PortPhyQcapsRequest: size 24, align 1, {
    header: 0, port_id: 16,
});

/// What the link can (`struct hwrm_port_phy_qcaps_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PortPhyQcapsAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// What can be changed.
    pub flags: u8,
    /// Ports of the device.
    pub port_cnt: u8,
    /// Speeds that can be forced, a bit each.
    pub supported_speeds_force_mode: U16,
    /// Speeds that can be negotiated, a bit each.
    pub supported_speeds_auto_mode: U16,
    unused0: [u8; 14],
    /// Which speed fields count ([`PHY_SPEEDS2_SUPPORTED`]).
    pub flags2: U16,
    unused1: [u8; 2],
    /// Newer speeds that can be forced.
    pub supported_speeds2_force_mode: U16,
    /// Newer speeds that can be negotiated.
    pub supported_speeds2_auto_mode: U16,
    unused2: [u8; 3],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(PortPhyQcapsAnswer: size 40, align 1, {
    header: 0, flags: 8, port_cnt: 9, supported_speeds_force_mode: 10, supported_speeds_auto_mode: 12, flags2: 28, supported_speeds2_force_mode: 32, supported_speeds2_auto_mode: 34, valid: 39,
});

request!(PortPhyQcapsRequest: PortPhyQcaps => PortPhyQcapsAnswer);

/// Asks how the link is (`struct hwrm_port_phy_qcfg_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PortPhyQcfgRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The port.
    pub port_id: U16,
    unused0: [u8; 6],
}

layout!(PortPhyQcfgRequest: size 24, align 1, {
    header: 0, port_id: 16,
});

/// How the link is (`struct hwrm_port_phy_qcfg_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PortPhyQcfgAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// [`LINK`], or no cable (0), or a cable without a link (1).
    pub link: u8,
    unused0: [u8; 1],
    /// Hundreds of Mb/s.
    pub link_speed: U16,
    /// 1 for both ways at once.
    pub duplex_cfg: u8,
    /// Pause frames: sent (1), heeded (2).
    pub pause: u8,
    /// Speeds that can be, a bit each.
    pub support_speeds: U16,
    /// The speed that is forced.
    pub force_link_speed: U16,
    /// How it is negotiated; 0 is not at all.
    pub auto_mode: u8,
    unused1: [u8; 3],
    /// Speeds that are negotiated.
    pub auto_link_speed_mask: U16,
    /// 1 if it may be slower than agreed.
    pub wirespeed: u8,
    unused2: [u8; 2],
    /// The module: 0 is good.
    pub module_status: u8,
    unused3: [u8; 7],
    /// The kind of transceiver.
    pub phy_type: u8,
    /// The medium: 2 is a direct cable.
    pub media_type: u8,
    unused4: [u8; 17],
    /// 1 for both ways at once.
    pub duplex_state: u8,
    /// How it was set up.
    pub option_flags: u8,
    /// Who made the module, a string.
    pub phy_vendor_name: [u8; 16],
    /// Which module, a string.
    pub phy_vendor_partnumber: [u8; 16],
    unused5: [u8; 8],
    /// Newer speeds that can be.
    pub support_speeds2: U16,
    /// The newer speed that is forced.
    pub force_link_speeds2: U16,
    /// Newer speeds that are negotiated.
    pub auto_link_speeds2: U16,
    /// Lanes in use.
    pub active_lanes: u8,
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(PortPhyQcfgAnswer: size 104, align 1, {
    header: 0, link: 8, link_speed: 10, duplex_cfg: 12, pause: 13, support_speeds: 14, force_link_speed: 16, auto_mode: 18, auto_link_speed_mask: 22, wirespeed: 24, module_status: 27, phy_type: 35, media_type: 36, duplex_state: 54, option_flags: 55, phy_vendor_name: 56, phy_vendor_partnumber: 72, support_speeds2: 96, force_link_speeds2: 98, auto_link_speeds2: 100, active_lanes: 102, valid: 103,
});

request!(PortPhyQcfgRequest: PortPhyQcfg => PortPhyQcfgAnswer);

/// Sets the link up (`struct hwrm_port_phy_cfg_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PortPhyCfgRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// What is to be done ([`phy_cfg_flags`]).
    pub flags: U32,
    /// Which of the fields count.
    pub enables: U32,
    /// The port.
    pub port_id: U16,
    /// The speed to force, in hundreds of Mb/s.
    pub force_link_speed: U16,
    /// How to negotiate.
    pub auto_mode: u8,
    unused0: [u8; 5],
    /// Speeds to negotiate.
    pub auto_link_speed_mask: U16,
    unused1: [u8; 18],
    /// The newer speed to force.
    pub force_link_speeds2: U16,
    /// Newer speeds to negotiate.
    pub auto_link_speeds2_mask: U16,
    unused2: [u8; 6],
}

layout!(PortPhyCfgRequest: size 64, align 1, {
    header: 0, flags: 16, enables: 20, port_id: 24, force_link_speed: 26, auto_mode: 28, auto_link_speed_mask: 34, force_link_speeds2: 54, auto_link_speeds2_mask: 56,
});

request!(PortPhyCfgRequest: PortPhyCfg => EmptyAnswer);

/// There is a link ([`PortPhyQcfgAnswer::link`], `PORT_PHY_QCFG_RESP_LINK_LINK`).
pub const LINK: u8 = 2;
/// The fields of newer speeds count ([`PortPhyQcapsAnswer::flags2`],
/// `PORT_PHY_QCAPS_RESP_FLAGS2_SPEEDS2_SUPPORTED`).
pub const PHY_SPEEDS2_SUPPORTED: u16 = 0x8;

/// Bits of [`PortPhyCfgRequest::flags`].
pub mod phy_cfg_flags {
    numbers! { u32;
        /// Reset the transceiver.
        RESET_PHY = 0x1, "PORT_PHY_CFG_REQ_FLAGS_RESET_PHY";
        /// Force the speed.
        FORCE = 0x4, "PORT_PHY_CFG_REQ_FLAGS_FORCE";
        /// Negotiate again.
        RESTART_AUTONEG = 0x8, "PORT_PHY_CFG_REQ_FLAGS_RESTART_AUTONEG";
        /// Take the link down.
        FORCE_LINK_DWN = 0x4000, "PORT_PHY_CFG_REQ_FLAGS_FORCE_LINK_DWN";
    }
}
