//! What the kernel says about a device.
//!
//! From Linux's `rdma/ib_user_verbs.h`; atomic capability from rdma-core's `infiniband/verbs.h`.

use zerocopy::big_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// What the NIC's atomics are atomic with (`enum ibv_atomic_cap`).
    pub enum AtomicCap: u32, "atomic capability" {
        /// There are none.
        None = 0, "IBV_ATOMIC_NONE";
        /// Other atomics of this NIC.
        Nic = 1, "IBV_ATOMIC_HCA";
        /// Those, and the processors' atomics.
        Global = 2, "IBV_ATOMIC_GLOB";
    }
}

/// Asks about the device (`struct ib_uverbs_query_device`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryDevice {
    /// 0.
    pub response: u64,
}

layout!(QueryDevice: size 8, align 8, { response: 0 });

/// What the device is and holds (`struct ib_uverbs_query_device_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryDeviceResp {
    /// The firmware's version.
    pub fw_ver: u64,
    /// The node's identifier, big-endian.
    pub node_guid: U64,
    /// The system's identifier, big-endian.
    pub sys_image_guid: U64,
    /// The most bytes of a region.
    pub max_mr_size: u64,
    /// A mask of page sizes in bytes.
    pub page_size_cap: u64,
    /// The maker.
    pub vendor_id: u32,
    /// The model.
    pub vendor_part_id: u32,
    /// The model's version.
    pub hw_ver: u32,
    /// The most queue pairs.
    pub max_qp: u32,
    /// The most work entries of a queue.
    pub max_qp_wr: u32,
    /// `enum ib_uverbs_device_cap_flags`, the low 32 bits.
    pub device_cap_flags: u32,
    /// The most scatter or gather entries of a work entry.
    pub max_sge: u32,
    /// The most scatter entries of a read.
    pub max_sge_rd: u32,
    /// The most completion queues.
    pub max_cq: u32,
    /// The most entries of a completion queue.
    pub max_cqe: u32,
    /// The most regions.
    pub max_mr: u32,
    /// The most protection domains.
    pub max_pd: u32,
    /// The most reads and atomics that a queue pair may have coming in.
    pub max_qp_rd_atom: u32,
    /// 0.
    pub max_ee_rd_atom: u32,
    /// The most reads and atomics that all may have coming in.
    pub max_res_rd_atom: u32,
    /// The most reads and atomics that a queue pair may have going out.
    pub max_qp_init_rd_atom: u32,
    /// 0.
    pub max_ee_init_rd_atom: u32,
    /// The number of an [`AtomicCap`].
    pub atomic_cap: u32,
    /// 0.
    pub max_ee: u32,
    /// 0.
    pub max_rdd: u32,
    /// The most memory windows.
    pub max_mw: u32,
    /// 0.
    pub max_raw_ipv6_qp: u32,
    /// 0.
    pub max_raw_ethy_qp: u32,
    /// The most multicast groups.
    pub max_mcast_grp: u32,
    /// The most queue pairs of a multicast group.
    pub max_mcast_qp_attach: u32,
    /// The most queue pairs in multicast groups.
    pub max_total_mcast_qp_attach: u32,
    /// The most address handles.
    pub max_ah: u32,
    /// 0.
    pub max_fmr: u32,
    /// 0.
    pub max_map_per_fmr: u32,
    /// The most shared receive queues.
    pub max_srq: u32,
    /// The most entries of a shared receive queue.
    pub max_srq_wr: u32,
    /// The most scatter entries of one of those.
    pub max_srq_sge: u32,
    /// The most partitions.
    pub max_pkeys: u16,
    /// How long an acknowledgement may take: 4.096 us times 2 to this power.
    pub local_ca_ack_delay: u8,
    /// The number of ports.
    pub phys_port_cnt: u8,
    /// 0.
    pub reserved: [u8; 4],
}

layout!(QueryDeviceResp: size 176, align 8, {
    fw_ver: 0, node_guid: 8, sys_image_guid: 16, max_mr_size: 24, page_size_cap: 32, vendor_id: 40,
    vendor_part_id: 44, hw_ver: 48, max_qp: 52, max_qp_wr: 56, device_cap_flags: 60, max_sge: 64,
    max_sge_rd: 68, max_cq: 72, max_cqe: 76, max_mr: 80, max_pd: 84, max_qp_rd_atom: 88,
    max_ee_rd_atom: 92, max_res_rd_atom: 96, max_qp_init_rd_atom: 100, max_ee_init_rd_atom: 104,
    atomic_cap: 108, max_ee: 112, max_rdd: 116, max_mw: 120, max_raw_ipv6_qp: 124,
    max_raw_ethy_qp: 128, max_mcast_grp: 132, max_mcast_qp_attach: 136,
    max_total_mcast_qp_attach: 140, max_ah: 144, max_fmr: 148, max_map_per_fmr: 152, max_srq: 156,
    max_srq_wr: 160, max_srq_sge: 164, max_pkeys: 168, local_ca_ack_delay: 170, phys_port_cnt: 171,
    reserved: 172,
});

/// Asks more about the device (`struct ib_uverbs_ex_query_device`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExQueryDevice {
    /// 0.
    pub comp_mask: u32,
    /// 0.
    pub reserved: u32,
}

layout!(ExQueryDevice: size 8, align 4, { comp_mask: 0, reserved: 4 });

/// What unpinned regions may do (`struct ib_uverbs_odp_caps`).
///
/// The middle three are the header's `per_transport_caps`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct OdpCaps {
    /// Whether there are any.
    pub general_caps: u64,
    /// Reliable connections.
    pub rc_odp_caps: u32,
    /// Unreliable connections.
    pub uc_odp_caps: u32,
    /// Datagrams.
    pub ud_odp_caps: u32,
    /// 0.
    pub reserved: u32,
}

layout!(OdpCaps: size 24, align 8, {
    general_caps: 0, rc_odp_caps: 8, uc_odp_caps: 12, ud_odp_caps: 16, reserved: 20,
});

/// What may spread packets over receive queues (`struct ib_uverbs_rss_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RssCaps {
    /// Kinds of queue pairs.
    pub supported_qpts: u32,
    /// The most tables.
    pub max_rwq_indirection_tables: u32,
    /// The most entries of a table.
    pub max_rwq_indirection_table_size: u32,
    /// 0.
    pub reserved: u32,
}

layout!(RssCaps: size 16, align 4, {
    supported_qpts: 0, max_rwq_indirection_tables: 4, max_rwq_indirection_table_size: 8,
    reserved: 12,
});

/// What tag matching may do (`struct ib_uverbs_tm_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct TmCaps {
    /// Bytes of a rendezvous header.
    pub max_rndv_hdr_size: u32,
    /// The most tags.
    pub max_num_tags: u32,
    /// Flags.
    pub flags: u32,
    /// The most list operations under way.
    pub max_ops: u32,
    /// The most scatter entries of a tag.
    pub max_sge: u32,
    /// 0.
    pub reserved: u32,
}

layout!(TmCaps: size 24, align 4, {
    max_rndv_hdr_size: 0, max_num_tags: 4, flags: 8, max_ops: 12, max_sge: 16, reserved: 20,
});

/// How far completion events may be held back (`struct ib_uverbs_cq_moderation_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CqModerationCaps {
    /// The most completions.
    pub max_cq_moderation_count: u16,
    /// The most microseconds.
    pub max_cq_moderation_period: u16,
    /// 0.
    pub reserved: u32,
}

layout!(CqModerationCaps: size 8, align 4, {
    max_cq_moderation_count: 0, max_cq_moderation_period: 2, reserved: 4,
});

/// More of what the device is and holds (`struct ib_uverbs_ex_query_device_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExQueryDeviceResp {
    /// What kernels said before.
    pub base: QueryDeviceResp,
    /// 0.
    pub comp_mask: u32,
    /// Bytes of this answer that the kernel filled in.
    pub response_length: u32,
    /// Unpinned regions.
    pub odp_caps: OdpCaps,
    /// The bits of a timestamp.
    pub timestamp_mask: u64,
    /// The NIC's clock in kHz.
    pub hca_core_clock: u64,
    /// `enum ib_uverbs_device_cap_flags`.
    pub device_cap_flags_ex: u64,
    /// Spreading over receive queues.
    pub rss_caps: RssCaps,
    /// The most receive work queues.
    pub max_wq_type_rq: u32,
    /// `enum ib_uverbs_raw_packet_caps`.
    pub raw_packet_caps: u32,
    /// Tag matching.
    pub tm_caps: TmCaps,
    /// Holding back events.
    pub cq_moderation_caps: CqModerationCaps,
    /// Bytes of memory on the device.
    pub max_dm_size: u64,
    /// Unpinned regions through extended connections.
    pub xrc_odp_caps: u32,
    /// 0.
    pub reserved: u32,
}

layout!(ExQueryDeviceResp: size 304, align 8, {
    base: 0, comp_mask: 176, response_length: 180, odp_caps: 184, timestamp_mask: 208,
    hca_core_clock: 216, device_cap_flags_ex: 224, rss_caps: 232, max_wq_type_rq: 248,
    raw_packet_caps: 252, tm_caps: 256, cq_moderation_caps: 280, max_dm_size: 288,
    xrc_odp_caps: 296, reserved: 300,
});
