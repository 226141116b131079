//! What the mlx5 driver adds to a query of the device.
//!
//! From Linux's `rdma/mlx5-abi.h`. In the host's byte order. Fields have the header's names.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Segmentation of raw packets (`struct mlx5_ib_tso_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct TsoCaps {
    /// The most bytes to segment.
    pub max_tso: u32,
    /// Kinds of queue pairs that may.
    pub supported_qpts: u32,
}

layout!(TsoCaps: size 8, align 4, { max_tso: 0, supported_qpts: 4 });

/// Spreading of raw packets over receive queues (`struct mlx5_ib_rss_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RssHashCaps {
    /// What may be hashed (`enum mlx5_rx_hash_fields`).
    pub rx_hash_fields_mask: u64,
    /// With which functions (`enum mlx5_rx_hash_function_flags`).
    pub rx_hash_function: u8,
    /// 0.
    pub reserved: [u8; 7],
}

layout!(RssHashCaps: size 16, align 8, {
    rx_hash_fields_mask: 0, rx_hash_function: 8, reserved: 9,
});

/// Compressed completions (`struct mlx5_ib_cqe_comp_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CqeCompCaps {
    /// The most in a session.
    pub max_num: u32,
    /// In which forms (`enum mlx5_ib_cqe_comp_res_format`).
    pub supported_format: u32,
}

layout!(CqeCompCaps: size 8, align 4, { max_num: 0, supported_format: 4 });

/// Pacing of raw packets (`struct mlx5_packet_pacing_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct PacketPacingCaps {
    /// The least speed, in kbit/s.
    pub qp_rate_limit_min: u32,
    /// The most speed, in kbit/s.
    pub qp_rate_limit_max: u32,
    /// Kinds of queue pairs that may.
    pub supported_qpts: u32,
    /// `enum mlx5_ib_packet_pacing_cap_flags`.
    pub cap_flags: u8,
    /// 0.
    pub reserved: [u8; 3],
}

layout!(PacketPacingCaps: size 16, align 4, {
    qp_rate_limit_min: 0, qp_rate_limit_max: 4, supported_qpts: 8, cap_flags: 12, reserved: 13,
});

/// Offloads for raw packets that software parses (`struct mlx5_ib_sw_parsing_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SwParsingCaps {
    /// `enum mlx5_ib_sw_parsing_offloads`.
    pub sw_parsing_offloads: u32,
    /// Kinds of queue pairs that may.
    pub supported_qpts: u32,
}

layout!(SwParsingCaps: size 8, align 4, { sw_parsing_offloads: 0, supported_qpts: 4 });

/// Receive entries of many strides, for raw packets (`struct mlx5_ib_striding_rq_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct StridingRqCaps {
    /// The base-2 logarithm of the least bytes of a stride.
    pub min_single_stride_log_num_of_bytes: u32,
    /// The base-2 logarithm of the most bytes of a stride.
    pub max_single_stride_log_num_of_bytes: u32,
    /// The base-2 logarithm of the least strides of an entry.
    pub min_single_wqe_log_num_of_strides: u32,
    /// The base-2 logarithm of the most strides of an entry.
    pub max_single_wqe_log_num_of_strides: u32,
    /// Kinds of queue pairs that may.
    pub supported_qpts: u32,
    /// 0.
    pub reserved: u32,
}

layout!(StridingRqCaps: size 24, align 4, {
    min_single_stride_log_num_of_bytes: 0, max_single_stride_log_num_of_bytes: 4,
    min_single_wqe_log_num_of_strides: 8, max_single_wqe_log_num_of_strides: 12, supported_qpts: 16,
    reserved: 20,
});

/// Streams of dynamically connected initiators (`struct mlx5_ib_dci_streams_caps`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DciStreamsCaps {
    /// The base-2 logarithm of the most streams.
    pub max_log_num_concurent: u8,
    /// The base-2 logarithm of the most that may fail.
    pub max_log_num_errored: u8,
}

layout!(DciStreamsCaps: size 2, align 1, { max_log_num_concurent: 0, max_log_num_errored: 1 });

/// Output of [`ExQueryDevice`](crate::mlx5::abi::verbs::device::ExQueryDevice) (`struct mlx5_ib_query_device_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryDeviceResp {
    /// 0.
    pub comp_mask: u32,
    /// Bytes of this answer that the kernel filled in.
    pub response_length: u32,
    /// Segmentation.
    pub tso_caps: TsoCaps,
    /// Spreading.
    pub rss_caps: RssHashCaps,
    /// Compressed completions.
    pub cqe_comp_caps: CqeCompCaps,
    /// Pacing.
    pub packet_pacing_caps: PacketPacingCaps,
    /// Entries of many raw packets (`enum mlx5_ib_mpw_caps`).
    pub mlx5_ib_support_multi_pkt_send_wqes: u32,
    /// `enum mlx5_ib_query_dev_resp_flags`.
    pub flags: u32,
    /// Parsed by software.
    pub sw_parsing_caps: SwParsingCaps,
    /// Strides.
    pub striding_rq_caps: StridingRqCaps,
    /// `enum mlx5_ib_tunnel_offloads`.
    pub tunnel_offloads_caps: u32,
    /// Streams.
    pub dci_streams_caps: DciStreamsCaps,
    /// 0.
    pub reserved: u16,
}

layout!(QueryDeviceResp: size 104, align 8, {
    comp_mask: 0, response_length: 4, tso_caps: 8, rss_caps: 16, cqe_comp_caps: 32,
    packet_pacing_caps: 40, mlx5_ib_support_multi_pkt_send_wqes: 56, flags: 60, sw_parsing_caps: 64,
    striding_rq_caps: 72, tunnel_offloads_caps: 96, dci_streams_caps: 100, reserved: 102,
});
