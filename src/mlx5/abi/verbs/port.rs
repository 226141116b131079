//! Ports, and their tables of global identifiers.
//!
//! From Linux's `rdma/ib_user_verbs.h` and `rdma/ib_user_ioctl_verbs.h`; the numbers from
//! rdma-core's `infiniband/verbs.h`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the kernel says about a port (`struct ib_uverbs_query_port_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryPortResp {
    /// `enum ib_uverbs_query_port_cap_flags`.
    pub port_cap_flags: u32,
    /// The most bytes of a message.
    pub max_msg_sz: u32,
    /// Packets with a wrong partition key.
    pub bad_pkey_cntr: u32,
    /// Packets with a wrong queue key.
    pub qkey_viol_cntr: u32,
    /// Entries of the table of global identifiers.
    pub gid_tbl_len: u32,
    /// Entries of the partition table.
    pub pkey_tbl_len: u16,
    /// The local identifier; 0 on Ethernet.
    pub lid: u16,
    /// The subnet manager's local identifier.
    pub sm_lid: u16,
    /// The number of a [`PortState`].
    pub state: u8,
    /// The number of the largest [`Mtu`] that the port can.
    pub max_mtu: u8,
    /// The number of the [`Mtu`] that the port has.
    pub active_mtu: u8,
    /// The number of low bits of the local identifier that choose a path.
    pub lmc: u8,
    /// The most virtual lanes.
    pub max_vl_num: u8,
    /// The subnet manager's service level.
    pub sm_sl: u8,
    /// How long the subnet may delay a packet: 4.096 us times 2 to this power.
    pub subnet_timeout: u8,
    /// What the subnet manager says that it did.
    pub init_type_reply: u8,
    /// The number of lanes, in a code.
    pub active_width: u8,
    /// The speed of a lane, in a code.
    pub active_speed: u8,
    /// The physical state.
    pub phys_state: u8,
    /// The number of a [`LinkLayer`].
    pub link_layer: u8,
    /// `enum ib_uverbs_query_port_flags`.
    pub flags: u8,
    /// 0.
    pub reserved: u8,
}

layout!(QueryPortResp: size 40, align 4, {
    port_cap_flags: 0, max_msg_sz: 4, bad_pkey_cntr: 8, qkey_viol_cntr: 12, gid_tbl_len: 16,
    pkey_tbl_len: 20, lid: 22, sm_lid: 24, state: 26, max_mtu: 27, active_mtu: 28, lmc: 29,
    max_vl_num: 30, sm_sl: 31, subnet_timeout: 32, init_type_reply: 33, active_width: 34,
    active_speed: 35, phys_state: 36, link_layer: 37, flags: 38, reserved: 39,
});

/// What [`device::QUERY_PORT`](super::method::device::QUERY_PORT) answers
/// (`struct ib_uverbs_query_port_resp_ex`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryPortRespEx {
    /// What kernels said before.
    pub legacy_resp: QueryPortResp,
    /// More of the port's capabilities.
    pub port_cap_flags2: u16,
    /// 0, or what a newer kernel says.
    pub reserved: [u8; 6],
}

layout!(QueryPortRespEx: size 48, align 4, { legacy_resp: 0, port_cap_flags2: 40, reserved: 42 });

/// An entry of a port's table of global identifiers (`struct ib_uverbs_gid_entry`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C, align(8))]
pub struct GidEntry {
    /// The identifier, in the order that it crosses the wire in. (The header has two 64-bit
    /// numbers, but the kernel copies bytes.)
    pub gid: [u8; 16],
    /// Its place in the table.
    pub gid_index: u32,
    /// The port, from 1 on.
    pub port_num: u32,
    /// The number of a [`GidType`].
    pub gid_type: u32,
    /// The network interface it belongs to, or 0.
    pub netdev_ifindex: u32,
}

layout!(GidEntry: size 32, align 8, {
    gid: 0, gid_index: 16, port_num: 20, gid_type: 24, netdev_ifindex: 28,
});

codes! {
    /// What packets to and from a global identifier look like (`enum ib_uverbs_gid_type`).
    pub enum GidType: u32, "kind of global identifier" {
        /// InfiniBand.
        InfiniBand = 0, "IB_UVERBS_GID_TYPE_IB";
        /// RoCE v1: Ethernet frames.
        RoceV1 = 1, "IB_UVERBS_GID_TYPE_ROCE_V1";
        /// RoCE v2: UDP.
        RoceV2 = 2, "IB_UVERBS_GID_TYPE_ROCE_V2";
    }
}

codes! {
    /// What a port's link is (`IBV_LINK_LAYER_*`).
    pub enum LinkLayer: u8, "link layer" {
        /// Not said.
        Unspecified = 0, "IBV_LINK_LAYER_UNSPECIFIED";
        /// InfiniBand.
        InfiniBand = 1, "IBV_LINK_LAYER_INFINIBAND";
        /// Ethernet.
        Ethernet = 2, "IBV_LINK_LAYER_ETHERNET";
    }
}

codes! {
    /// A port's logical state (`enum ibv_port_state`).
    pub enum PortState: u8, "port state" {
        /// No change; never an answer.
        Nop = 0, "IBV_PORT_NOP";
        /// No link.
        Down = 1, "IBV_PORT_DOWN";
        /// A link, and no subnet manager yet.
        Init = 2, "IBV_PORT_INIT";
        /// Configured, and waiting.
        Armed = 3, "IBV_PORT_ARMED";
        /// Carries packets.
        Active = 4, "IBV_PORT_ACTIVE";
        /// Carries packets, and had an error.
        ActiveDefer = 5, "IBV_PORT_ACTIVE_DEFER";
    }
}

codes! {
    /// The most bytes of a packet's payload (`enum ibv_mtu`).
    pub enum Mtu: u8, "MTU" {
        /// 256 bytes.
        Mtu256 = 1, "IBV_MTU_256";
        /// 512 bytes.
        Mtu512 = 2, "IBV_MTU_512";
        /// 1024 bytes.
        Mtu1024 = 3, "IBV_MTU_1024";
        /// 2048 bytes.
        Mtu2048 = 4, "IBV_MTU_2048";
        /// 4096 bytes.
        Mtu4096 = 5, "IBV_MTU_4096";
    }
}

impl Mtu {
    /// The number of bytes.
    pub const fn bytes(self) -> u32 {
        128 << self.code()
    }
}
