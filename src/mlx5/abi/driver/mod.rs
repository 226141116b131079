//! What the mlx5 driver adds to the verbs commands.
//!
//! The driver's part of a command travels in [`UHW_IN`](super::verbs::method::UHW_IN) and
//! [`UHW_OUT`](super::verbs::method::UHW_OUT).
//!
//! From Linux's `rdma/mlx5-abi.h`, `rdma/mlx5_user_ioctl_cmds.h` and
//! `rdma/mlx5_user_ioctl_verbs.h`. In the host's byte order. Fields have the headers' names.

pub mod device;

use super::verbs::method::{DRIVER_NAMESPACE, Method};
use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the process can (`enum mlx5_lib_caps`).
#[bitfield(u64)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LibCaps {
    /// Register pages of 4 KiB whatever the system's pages.
    pub uar_4k: bool,
    /// Register pages made one by one, as objects; no page comes with the context.
    pub dyn_uar: bool,
    #[bits(62)]
    __: u64,
}

/// How the context is made (`enum mlx5_ib_alloc_uctx_v2_flags`).
#[bitfield(u32)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct AllocUcontextFlags {
    /// With the right to make objects of the firmware's own.
    pub devx: bool,
    #[bits(31)]
    __: u32,
}

/// Input to making the context (`struct mlx5_ib_alloc_ucontext_req_v2`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AllocUcontextReqV2 {
    /// The number of send registers to have at once. With [`LibCaps::dyn_uar`], only that it
    /// is more than the next field counts.
    pub total_num_bfregs: u32,
    /// How many of them are for one queue pair each.
    pub num_low_latency_bfregs: u32,
    /// How.
    pub flags: AllocUcontextFlags,
    /// 0.
    pub comp_mask: u32,
    /// The newest version of completions that the process reads.
    pub max_cqe_version: u8,
    /// 0.
    pub reserved0: u8,
    /// 0.
    pub reserved1: u16,
    /// 0.
    pub reserved2: u32,
    /// What the process can.
    pub lib_caps: LibCaps,
}

layout!(AllocUcontextReqV2: size 32, align 8, {
    total_num_bfregs: 0, num_low_latency_bfregs: 4, flags: 8, comp_mask: 12, max_cqe_version: 16,
    reserved0: 17, reserved1: 18, reserved2: 20, lib_caps: 24,
});

/// Output of making the context (`struct mlx5_ib_alloc_ucontext_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AllocUcontextResp {
    /// The number of queue pair numbers.
    pub qp_tab_size: u32,
    /// Bytes of a send register.
    pub bf_reg_size: u32,
    /// The number of send registers that came with the context.
    pub tot_bfregs: u32,
    /// Bytes of a cache line.
    pub cache_line_size: u32,
    /// The most bytes of a send entry.
    pub max_sq_desc_sz: u16,
    /// The most bytes of a receive entry.
    pub max_rq_desc_sz: u16,
    /// The most slots of a send ring.
    pub max_send_wqebb: u32,
    /// The most entries of a receive ring.
    pub max_recv_wr: u32,
    /// The most entries of a shared receive queue.
    pub max_srq_recv_wr: u32,
    /// The number of ports.
    pub num_ports: u16,
    /// What flow actions may do.
    pub flow_action_flags: u16,
    /// Which later fields count (`enum mlx5_ib_alloc_ucontext_resp_mask`).
    pub comp_mask: u32,
    /// Bytes of this answer that the kernel filled in.
    pub response_length: u32,
    /// The version of completions: 1 for those with user indexes.
    pub cqe_version: u8,
    /// Commands that take the driver's input (`enum mlx5_user_cmds_supp_uhw`).
    pub cmds_supp_uhw: u8,
    /// What raw packets must carry in the entry (`enum mlx5_user_inline_mode`).
    pub eth_min_inline: u8,
    /// Versions of the clock page.
    pub clock_info_versions: u8,
    /// Where in its page the clock is.
    pub hca_core_clock_offset: u64,
    /// The base-2 logarithm of the bytes of a register page.
    pub log_uar_size: u32,
    /// The number of register pages in a page of the system.
    pub num_uars_per_page: u32,
    /// The number of send registers that may be added.
    pub num_dyn_bfregs: u32,
    /// A key that reads as zeroes and drops what is written.
    pub dump_fill_mkey: u32,
}

layout!(AllocUcontextResp: size 72, align 8, {
    qp_tab_size: 0, bf_reg_size: 4, tot_bfregs: 8, cache_line_size: 12, max_sq_desc_sz: 16,
    max_rq_desc_sz: 18, max_send_wqebb: 20, max_recv_wr: 24, max_srq_recv_wr: 28, num_ports: 32,
    flow_action_flags: 34, comp_mask: 36, response_length: 40, cqe_version: 44, cmds_supp_uhw: 45,
    eth_min_inline: 46, clock_info_versions: 47, hca_core_clock_offset: 48, log_uar_size: 56,
    num_uars_per_page: 60, num_dyn_bfregs: 64, dump_fill_mkey: 68,
});

/// Output of making a protection domain (`struct mlx5_ib_alloc_pd_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AllocPdResp {
    /// Its number.
    pub pdn: u32,
}

layout!(AllocPdResp: size 4, align 4, { pdn: 0 });

/// How a completion queue is made (`enum mlx5_ib_create_cq_flags`).
#[bitfield(u16)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CreateCqFlags {
    /// Entries of 128 bytes are padded.
    pub cqe_128b_pad: bool,
    /// [`CreateCq::uar_page_index`] counts.
    pub uar_page_index: bool,
    /// Timestamps are real time.
    pub real_time_ts: bool,
    #[bits(13)]
    __: u16,
}

/// Input to making a completion queue (`struct mlx5_ib_create_cq`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCq {
    /// The address of the ring.
    pub buf_addr: u64,
    /// The address of the doorbell record.
    pub db_addr: u64,
    /// Bytes of a completion: 64 or 128.
    pub cqe_size: u32,
    /// Whether completions may be compressed.
    pub cqe_comp_en: u8,
    /// How (`enum mlx5_ib_cqe_comp_res_format`).
    pub cqe_comp_res_format: u8,
    /// How.
    pub flags: CreateCqFlags,
    /// The register page that it is armed through.
    pub uar_page_index: u16,
    /// 0.
    pub reserved0: u16,
    /// 0.
    pub reserved1: u32,
}

layout!(CreateCq: size 32, align 8, {
    buf_addr: 0, db_addr: 8, cqe_size: 16, cqe_comp_en: 20, cqe_comp_res_format: 21, flags: 22,
    uar_page_index: 24, reserved0: 26, reserved1: 28,
});

/// Output of making a completion queue (`struct mlx5_ib_create_cq_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCqResp {
    /// Its number.
    pub cqn: u32,
    /// 0.
    pub reserved: u32,
}

layout!(CreateCqResp: size 8, align 4, { cqn: 0, reserved: 4 });

/// How a queue pair is made (`MLX5_QP_FLAG_*`).
#[bitfield(u32)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CreateQpFlags {
    /// Entries carry a check byte.
    pub signature: bool,
    /// Short data may be scattered into completions.
    pub scatter_cqe: bool,
    /// Tunnels, for raw packets.
    pub tunnel_offloads: bool,
    /// [`CreateQp::bfreg_index`] names a send register of the context.
    pub bfreg_index: bool,
    /// A dynamically connected target.
    pub type_dct: bool,
    /// A dynamically connected initiator.
    pub type_dci: bool,
    /// Raw packets may loop back.
    pub tir_allow_self_lb_uc: bool,
    /// Raw multicast packets may loop back.
    pub tir_allow_self_lb_mc: bool,
    /// Scattering into completions is allowed where the device would not do it unasked.
    pub allow_scatter_cqe: bool,
    /// Credits count packets.
    pub packet_based_credit_mode: bool,
    /// [`CreateQp::bfreg_index`] is the index of a register page.
    pub uar_page_index: bool,
    /// Streams, for dynamically connected initiators.
    pub dci_stream: bool,
    #[bits(20)]
    __: u32,
}

/// The streams of a dynamically connected initiator (`struct mlx5_ib_create_qp_dci_streams`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DciStreams {
    /// The base-2 logarithm of their number.
    pub log_num_concurent: u8,
    /// The base-2 logarithm of how many may fail.
    pub log_num_errored: u8,
}

layout!(DciStreams: size 2, align 1, { log_num_concurent: 0, log_num_errored: 1 });

/// Input to making a queue pair (`struct mlx5_ib_create_qp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateQp {
    /// The address of the rings: the receive ring, then the send ring.
    pub buf_addr: u64,
    /// The address of the doorbell record.
    pub db_addr: u64,
    /// The slots of the send ring: a power of two.
    pub sq_wqe_count: u32,
    /// The entries of the receive ring: a power of two, or 0.
    pub rq_wqe_count: u32,
    /// The base-2 logarithm of the bytes of a receive entry.
    pub rq_wqe_shift: u32,
    /// How.
    pub flags: CreateQpFlags,
    /// The user index that its completions carry: 24 bits.
    pub uidx: u32,
    /// Its send register, or register page: see [`CreateQpFlags`].
    pub bfreg_index: u32,
    /// The address of a send ring apart, for raw packets. (In a union with `access_key`.)
    pub sq_buf_addr: u64,
    /// What was agreed with the peer's kernel.
    pub ece_options: u32,
    /// Streams.
    pub dci_streams: DciStreams,
    /// 0.
    pub reserved: u16,
}

layout!(CreateQp: size 56, align 8, {
    buf_addr: 0, db_addr: 8, sq_wqe_count: 16, rq_wqe_count: 20, rq_wqe_shift: 24, flags: 28,
    uidx: 32, bfreg_index: 36, sq_buf_addr: 40, ece_options: 48, dci_streams: 52, reserved: 54,
});

/// Output of making a queue pair (`struct mlx5_ib_create_qp_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateQpResp {
    /// Its send register.
    pub bfreg_index: u32,
    /// What may be agreed with the peer's kernel.
    pub ece_options: u32,
    /// Which later fields count (`enum mlx5_ib_create_qp_resp_mask`).
    pub comp_mask: u32,
    /// For raw packets.
    pub tirn: u32,
    /// For raw packets.
    pub tisn: u32,
    /// For raw packets.
    pub rqn: u32,
    /// For raw packets.
    pub sqn: u32,
    /// 0.
    pub reserved1: u32,
    /// For raw packets.
    pub tir_icm_addr: u64,
}

layout!(CreateQpResp: size 40, align 8, {
    bfreg_index: 0, ece_options: 4, comp_mask: 8, tirn: 12, tisn: 16, rqn: 20, sqn: 24,
    reserved1: 28, tir_icm_addr: 32,
});

/// How raw packets are paced (`struct mlx5_ib_burst_info`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct BurstInfo {
    /// Bytes of a burst.
    pub max_burst_sz: u32,
    /// Bytes of a packet.
    pub typical_pkt_sz: u16,
    /// 0.
    pub reserved: u16,
}

layout!(BurstInfo: size 8, align 4, { max_burst_sz: 0, typical_pkt_sz: 4, reserved: 6 });

/// Input to changing a queue pair (`struct mlx5_ib_modify_qp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ModifyQp {
    /// `enum mlx5_ib_modify_qp_mask`.
    pub comp_mask: u32,
    /// Pacing.
    pub burst_info: BurstInfo,
    /// What was agreed with the peer's kernel.
    pub ece_options: u32,
}

layout!(ModifyQp: size 16, align 4, { comp_mask: 0, burst_info: 4, ece_options: 12 });

/// Output of changing a queue pair (`struct mlx5_ib_modify_qp_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ModifyQpResp {
    /// Bytes of this answer that the kernel filled in.
    pub response_length: u32,
    /// The number of a dynamically connected target.
    pub dctn: u32,
    /// What was agreed with the peer's kernel.
    pub ece_options: u32,
    /// 0.
    pub reserved: u32,
}

layout!(ModifyQpResp: size 16, align 4, {
    response_length: 0, dctn: 4, ece_options: 8, reserved: 12,
});

codes! {
    /// How a register page is mapped (`enum mlx5_ib_uapi_uar_alloc_type`).
    pub enum UarAllocType: u64, "kind of register page" {
        /// Write-combining, for BlueFlame.
        BlueFlame = 0, "MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF";
        /// Not cached.
        NonCached = 1, "MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC";
    }
}

/// The driver's kinds of objects (`enum mlx5_ib_objects`).
pub mod object {
    numbers! { u16;
        /// A register page.
        UAR = super::DRIVER_NAMESPACE + 8, "MLX5_IB_OBJECT_UAR";
    }
}

/// Register pages.
pub mod uar {
    use super::{DRIVER_NAMESPACE, Method, object};

    numbers! { Method;
        /// Makes one.
        ALLOC = Method { object: object::UAR, method: DRIVER_NAMESPACE }, "MLX5_IB_METHOD_UAR_OBJ_ALLOC";
        /// Destroys one.
        DESTROY = Method { object: object::UAR, method: DRIVER_NAMESPACE + 1 }, "MLX5_IB_METHOD_UAR_OBJ_DESTROY";
    }
}

/// The attributes of [`uar::ALLOC`].
pub mod uar_alloc {
    use super::DRIVER_NAMESPACE;

    numbers! { u16;
        /// The page: a new handle.
        HANDLE = DRIVER_NAMESPACE, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE";
        /// A [`UarAllocType`](super::UarAllocType): a constant.
        TYPE = DRIVER_NAMESPACE + 1, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE";
        /// The offset to map it at: 8 bytes of output.
        MMAP_OFFSET = DRIVER_NAMESPACE + 2, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET";
        /// The bytes to map: 4 bytes of output.
        MMAP_LENGTH = DRIVER_NAMESPACE + 3, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH";
        /// Its index, for [`CreateCq::uar_page_index`](super::CreateCq::uar_page_index) and
        /// [`CreateQp::bfreg_index`](super::CreateQp::bfreg_index): 4 bytes of output.
        PAGE_ID = DRIVER_NAMESPACE + 4, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID";
    }
}

/// The attributes of [`uar::DESTROY`].
pub mod uar_destroy {
    use super::DRIVER_NAMESPACE;

    numbers! { u16;
        /// The page: a handle.
        HANDLE = DRIVER_NAMESPACE, "MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE";
    }
}
