//! The older commands: their requests and answers.
//!
//! [`device::INVOKE_WRITE`](super::method::device::INVOKE_WRITE) does them, with the request in
//! `CORE_IN`, room for the answer in `CORE_OUT`, and the driver's parts in `UHW_IN` and `UHW_OUT`.
//! So the `response` fields, which point to the answer for processes that write commands to the
//! file, are 0 here.
//!
//! From Linux's `rdma/ib_user_verbs.h`.

use super::AccessFlags;
use zerocopy::big_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Added to the number of an extended command (`IB_USER_VERBS_CMD_FLAG_EXTENDED`).
const EXTENDED: u32 = 0x8000_0000;

codes! {
    /// A command's number (`enum ib_uverbs_write_cmds`), with `IB_USER_VERBS_CMD_FLAG_EXTENDED`
    /// for an extended one.
    pub enum WriteCommand: u32, "verbs command" {
        /// Asks about the device: [`QueryDevice`], [`QueryDeviceResp`].
        QueryDevice = 1, "IB_USER_VERBS_CMD_QUERY_DEVICE";
        /// Makes a protection domain: [`AllocPd`], [`AllocPdResp`].
        AllocPd = 3, "IB_USER_VERBS_CMD_ALLOC_PD";
        /// Destroys a protection domain: [`DeallocPd`].
        DeallocPd = 4, "IB_USER_VERBS_CMD_DEALLOC_PD";
        /// Registers memory: [`RegMr`], [`RegMrResp`].
        RegMr = 9, "IB_USER_VERBS_CMD_REG_MR";
        /// Deregisters memory: [`DeregMr`].
        DeregMr = 13, "IB_USER_VERBS_CMD_DEREG_MR";
        /// Makes a completion channel: [`CreateCompChannel`], [`CreateCompChannelResp`].
        CreateCompChannel = 17, "IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL";
        /// Makes a completion queue: [`CreateCq`], [`CreateCqResp`].
        CreateCq = 18, "IB_USER_VERBS_CMD_CREATE_CQ";
        /// Destroys a completion queue: [`DestroyCq`], [`DestroyCqResp`].
        DestroyCq = 20, "IB_USER_VERBS_CMD_DESTROY_CQ";
        /// Makes a queue pair: [`CreateQp`](super::qp::CreateQp),
        /// [`CreateQpResp`](super::qp::CreateQpResp).
        CreateQp = 24, "IB_USER_VERBS_CMD_CREATE_QP";
        /// Asks about a queue pair: [`QueryQp`](super::qp::QueryQp),
        /// [`QueryQpResp`](super::qp::QueryQpResp).
        QueryQp = 25, "IB_USER_VERBS_CMD_QUERY_QP";
        /// Changes a queue pair: [`ModifyQp`](super::qp::ModifyQp).
        ModifyQp = 26, "IB_USER_VERBS_CMD_MODIFY_QP";
        /// Destroys a queue pair: [`DestroyQp`](super::qp::DestroyQp),
        /// [`DestroyQpResp`](super::qp::DestroyQpResp).
        DestroyQp = 27, "IB_USER_VERBS_CMD_DESTROY_QP";
        /// Asks more about the device: [`ExQueryDevice`], [`ExQueryDeviceResp`].
        ExQueryDevice = EXTENDED | 1, "IB_USER_VERBS_EX_CMD_QUERY_DEVICE";
        /// Makes a completion queue: [`ExCreateCq`], [`ExCreateCqResp`].
        ExCreateCq = EXTENDED | 18, "IB_USER_VERBS_EX_CMD_CREATE_CQ";
        /// Makes a queue pair: [`ExCreateQp`](super::qp::ExCreateQp),
        /// [`ExCreateQpResp`](super::qp::ExCreateQpResp).
        ExCreateQp = EXTENDED | 24, "IB_USER_VERBS_EX_CMD_CREATE_QP";
        /// Changes a queue pair: [`ExModifyQp`](super::qp::ExModifyQp),
        /// [`ExModifyQpResp`](super::qp::ExModifyQpResp).
        ExModifyQp = EXTENDED | 26, "IB_USER_VERBS_EX_CMD_MODIFY_QP";
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
    /// What atomics are atomic with (`enum ibv_atomic_cap`).
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

/// Makes a protection domain (`struct ib_uverbs_alloc_pd`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AllocPd {
    /// 0.
    pub response: u64,
}

layout!(AllocPd: size 8, align 8, { response: 0 });

/// The protection domain made (`struct ib_uverbs_alloc_pd_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AllocPdResp {
    /// Its handle.
    pub pd_handle: u32,
}

layout!(AllocPdResp: size 4, align 4, { pd_handle: 0 });

/// Destroys a protection domain (`struct ib_uverbs_dealloc_pd`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DeallocPd {
    /// Its handle.
    pub pd_handle: u32,
}

layout!(DeallocPd: size 4, align 4, { pd_handle: 0 });

/// Registers memory (`struct ib_uverbs_reg_mr`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RegMr {
    /// 0.
    pub response: u64,
    /// The address of its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The address of its first byte in work entries; equal to `start` modulo the page size.
    pub hca_va: u64,
    /// The protection domain.
    pub pd_handle: u32,
    /// What may be done to it.
    pub access_flags: AccessFlags,
}

layout!(RegMr: size 40, align 8, {
    response: 0, start: 8, length: 16, hca_va: 24, pd_handle: 32, access_flags: 36,
});

/// The region made (`struct ib_uverbs_reg_mr_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RegMrResp {
    /// Its handle.
    pub mr_handle: u32,
    /// Its local key.
    pub lkey: u32,
    /// Its remote key.
    pub rkey: u32,
}

layout!(RegMrResp: size 12, align 4, { mr_handle: 0, lkey: 4, rkey: 8 });

/// Deregisters memory (`struct ib_uverbs_dereg_mr`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DeregMr {
    /// Its handle.
    pub mr_handle: u32,
}

layout!(DeregMr: size 4, align 4, { mr_handle: 0 });

/// Makes a completion channel (`struct ib_uverbs_create_comp_channel`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCompChannel {
    /// 0.
    pub response: u64,
}

layout!(CreateCompChannel: size 8, align 8, { response: 0 });

/// The completion channel made (`struct ib_uverbs_create_comp_channel_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCompChannelResp {
    /// Its descriptor.
    pub fd: u32,
}

layout!(CreateCompChannelResp: size 4, align 4, { fd: 0 });

/// Makes a completion queue (`struct ib_uverbs_create_cq`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCq {
    /// 0.
    pub response: u64,
    /// What its events carry.
    pub user_handle: u64,
    /// The least number of entries.
    pub cqe: u32,
    /// The completion vector.
    pub comp_vector: u32,
    /// The descriptor of its completion channel, or -1.
    pub comp_channel: i32,
    /// 0.
    pub reserved: u32,
}

layout!(CreateCq: size 32, align 8, {
    response: 0, user_handle: 8, cqe: 16, comp_vector: 20, comp_channel: 24, reserved: 28,
});

/// The completion queue made (`struct ib_uverbs_create_cq_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCqResp {
    /// Its handle.
    pub cq_handle: u32,
    /// The number of entries it has.
    pub cqe: u32,
}

layout!(CreateCqResp: size 8, align 4, { cq_handle: 0, cqe: 4 });

/// Makes a completion queue (`struct ib_uverbs_ex_create_cq`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExCreateCq {
    /// What its events carry.
    pub user_handle: u64,
    /// The least number of entries.
    pub cqe: u32,
    /// The completion vector.
    pub comp_vector: u32,
    /// The descriptor of its completion channel, or -1.
    pub comp_channel: i32,
    /// 0.
    pub comp_mask: u32,
    /// `enum ib_uverbs_ex_create_cq_flags`.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

layout!(ExCreateCq: size 32, align 8, {
    user_handle: 0, cqe: 8, comp_vector: 12, comp_channel: 16, comp_mask: 20, flags: 24,
    reserved: 28,
});

/// The completion queue made (`struct ib_uverbs_ex_create_cq_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExCreateCqResp {
    /// What kernels said before.
    pub base: CreateCqResp,
    /// 0.
    pub comp_mask: u32,
    /// Bytes of this answer that the kernel filled in.
    pub response_length: u32,
}

layout!(ExCreateCqResp: size 16, align 4, { base: 0, comp_mask: 8, response_length: 12 });

/// Destroys a completion queue (`struct ib_uverbs_destroy_cq`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyCq {
    /// 0.
    pub response: u64,
    /// Its handle.
    pub cq_handle: u32,
    /// 0.
    pub reserved: u32,
}

layout!(DestroyCq: size 16, align 8, { response: 0, cq_handle: 8, reserved: 12 });

/// How many events the completion queue had raised (`struct ib_uverbs_destroy_cq_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyCqResp {
    /// Completion events.
    pub comp_events_reported: u32,
    /// Asynchronous events.
    pub async_events_reported: u32,
}

layout!(DestroyCqResp: size 8, align 4, { comp_events_reported: 0, async_events_reported: 4 });
