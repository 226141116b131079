//! Queue pairs: requests, answers and numbers.
//!
//! From Linux's `rdma/ib_user_verbs.h` and `rdma/ib_user_ioctl_verbs.h`; the numbers that are not
//! there from rdma-core's `infiniband/verbs.h`.

use super::AccessFlags;
use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// How a queue pair talks to its peers (`enum ib_uverbs_qp_type`).
    pub enum QpType: u8, "kind of queue pair" {
        /// Reliably, to one peer.
        ReliableConnected = 2, "IB_UVERBS_QPT_RC";
        /// Unreliably, to one peer.
        UnreliableConnected = 3, "IB_UVERBS_QPT_UC";
        /// Unreliably, to any peer.
        UnreliableDatagram = 4, "IB_UVERBS_QPT_UD";
        /// In raw packets.
        RawPacket = 8, "IB_UVERBS_QPT_RAW_PACKET";
        /// As the driver says.
        Driver = 0xff, "IB_UVERBS_QPT_DRIVER";
    }
}

codes! {
    /// A queue pair's state (`enum ibv_qp_state`).
    pub enum QpState: u8, "state of a queue pair" {
        /// Made, or taken back.
        Reset = 0, "IBV_QPS_RESET";
        /// Takes receives.
        Init = 1, "IBV_QPS_INIT";
        /// Answers its peer.
        ReadyToReceive = 2, "IBV_QPS_RTR";
        /// Works.
        ReadyToSend = 3, "IBV_QPS_RTS";
        /// Its send queue drains.
        SendQueueDrain = 4, "IBV_QPS_SQD";
        /// Its send queue failed.
        SendQueueError = 5, "IBV_QPS_SQE";
        /// It failed.
        Error = 6, "IBV_QPS_ERR";
    }
}

/// Which fields of a [`ModifyQp`] count (`enum ibv_qp_attr_mask`).
#[bitfield(u32)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct QpAttrMask {
    /// `qp_state`.
    pub state: bool,
    /// `cur_qp_state`.
    pub cur_state: bool,
    /// `en_sqd_async_notify`.
    pub en_sqd_async_notify: bool,
    /// `qp_access_flags`.
    pub access_flags: bool,
    /// `pkey_index`.
    pub pkey_index: bool,
    /// `port_num`.
    pub port: bool,
    /// `qkey`.
    pub qkey: bool,
    /// `dest`.
    pub av: bool,
    /// `path_mtu`.
    pub path_mtu: bool,
    /// `timeout`.
    pub timeout: bool,
    /// `retry_cnt`.
    pub retry_cnt: bool,
    /// `rnr_retry`.
    pub rnr_retry: bool,
    /// `rq_psn`.
    pub rq_psn: bool,
    /// `max_rd_atomic`.
    pub max_rd_atomic: bool,
    /// `alt_dest` and what goes with it.
    pub alt_path: bool,
    /// `min_rnr_timer`.
    pub min_rnr_timer: bool,
    /// `sq_psn`.
    pub sq_psn: bool,
    /// `max_dest_rd_atomic`.
    pub max_dest_rd_atomic: bool,
    /// `path_mig_state`.
    pub path_mig_state: bool,
    /// No field: the size of the queue pair.
    pub cap: bool,
    /// `dest_qp_num`.
    pub dest_qpn: bool,
    #[bits(11)]
    __: u16,
}

/// How much a queue pair holds (`struct ib_uverbs_qp_cap`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QpCap {
    /// Entries of the send queue.
    pub max_send_wr: u32,
    /// Entries of the receive queue.
    pub max_recv_wr: u32,
    /// Gather entries of a send entry.
    pub max_send_sge: u32,
    /// Scatter entries of a receive.
    pub max_recv_sge: u32,
    /// Bytes that a send entry may carry itself.
    pub max_inline_data: u32,
}

layout!(QpCap: size 20, align 4, {
    max_send_wr: 0, max_recv_wr: 4, max_send_sge: 8, max_recv_sge: 12, max_inline_data: 16,
});

/// Makes a queue pair (`struct ib_uverbs_create_qp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateQp {
    /// 0.
    pub response: u64,
    /// What its events carry.
    pub user_handle: u64,
    /// The protection domain.
    pub pd_handle: u32,
    /// The completion queue of sends.
    pub send_cq_handle: u32,
    /// The completion queue of receives.
    pub recv_cq_handle: u32,
    /// The shared receive queue, if `is_srq`.
    pub srq_handle: u32,
    /// Entries of the send queue.
    pub max_send_wr: u32,
    /// Entries of the receive queue.
    pub max_recv_wr: u32,
    /// Gather entries of a send entry.
    pub max_send_sge: u32,
    /// Scatter entries of a receive.
    pub max_recv_sge: u32,
    /// Bytes that a send entry may carry itself.
    pub max_inline_data: u32,
    /// Whether every send entry completes with a completion.
    pub sq_sig_all: u8,
    /// The number of a [`QpType`].
    pub qp_type: u8,
    /// Whether it receives from a shared queue.
    pub is_srq: u8,
    /// 0.
    pub reserved: u8,
}

layout!(CreateQp: size 56, align 8, {
    response: 0, user_handle: 8, pd_handle: 16, send_cq_handle: 20, recv_cq_handle: 24,
    srq_handle: 28, max_send_wr: 32, max_recv_wr: 36, max_send_sge: 40, max_recv_sge: 44,
    max_inline_data: 48, sq_sig_all: 52, qp_type: 53, is_srq: 54, reserved: 55,
});

/// The queue pair made (`struct ib_uverbs_create_qp_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateQpResp {
    /// Its handle.
    pub qp_handle: u32,
    /// Its number.
    pub qpn: u32,
    /// Entries of the send queue.
    pub max_send_wr: u32,
    /// Entries of the receive queue.
    pub max_recv_wr: u32,
    /// Gather entries of a send entry.
    pub max_send_sge: u32,
    /// Scatter entries of a receive.
    pub max_recv_sge: u32,
    /// Bytes that a send entry may carry itself.
    pub max_inline_data: u32,
    /// 0.
    pub reserved: u32,
}

layout!(CreateQpResp: size 32, align 4, {
    qp_handle: 0, qpn: 4, max_send_wr: 8, max_recv_wr: 12, max_send_sge: 16, max_recv_sge: 20,
    max_inline_data: 24, reserved: 28,
});

/// Makes a queue pair (`struct ib_uverbs_ex_create_qp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExCreateQp {
    /// What its events carry.
    pub user_handle: u64,
    /// The protection domain.
    pub pd_handle: u32,
    /// The completion queue of sends.
    pub send_cq_handle: u32,
    /// The completion queue of receives.
    pub recv_cq_handle: u32,
    /// The shared receive queue, if `is_srq`.
    pub srq_handle: u32,
    /// Entries of the send queue.
    pub max_send_wr: u32,
    /// Entries of the receive queue.
    pub max_recv_wr: u32,
    /// Gather entries of a send entry.
    pub max_send_sge: u32,
    /// Scatter entries of a receive.
    pub max_recv_sge: u32,
    /// Bytes that a send entry may carry itself.
    pub max_inline_data: u32,
    /// Whether every send entry completes with a completion.
    pub sq_sig_all: u8,
    /// The number of a [`QpType`].
    pub qp_type: u8,
    /// Whether it receives from a shared queue.
    pub is_srq: u8,
    /// 0.
    pub reserved: u8,
    /// 0.
    pub comp_mask: u32,
    /// `enum ib_uverbs_qp_create_flags`.
    pub create_flags: u32,
    /// The table of receive queues, for raw packets.
    pub rwq_ind_tbl_handle: u32,
    /// The number it sends as, for raw packets.
    pub source_qpn: u32,
}

layout!(ExCreateQp: size 64, align 8, {
    user_handle: 0, pd_handle: 8, send_cq_handle: 12, recv_cq_handle: 16, srq_handle: 20,
    max_send_wr: 24, max_recv_wr: 28, max_send_sge: 32, max_recv_sge: 36, max_inline_data: 40,
    sq_sig_all: 44, qp_type: 45, is_srq: 46, reserved: 47, comp_mask: 48, create_flags: 52,
    rwq_ind_tbl_handle: 56, source_qpn: 60,
});

/// The queue pair made (`struct ib_uverbs_ex_create_qp_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExCreateQpResp {
    /// What kernels said before.
    pub base: CreateQpResp,
    /// 0.
    pub comp_mask: u32,
    /// Bytes of this answer that the kernel filled in.
    pub response_length: u32,
}

layout!(ExCreateQpResp: size 40, align 4, { base: 0, comp_mask: 32, response_length: 36 });

/// The way to a peer (`struct ib_uverbs_qp_dest`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QpDest {
    /// The peer's global identifier, in the order that it crosses the wire in.
    pub dgid: [u8; 16],
    /// The flow label.
    pub flow_label: u32,
    /// The peer's local identifier; 0 on Ethernet.
    pub dlid: u16,
    /// 0.
    pub reserved: u16,
    /// Which of this port's global identifiers to send from.
    pub sgid_index: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The service level.
    pub sl: u8,
    /// The low bits of this port's local identifier.
    pub src_path_bits: u8,
    /// The most speed, in a code; 0 for the port's own.
    pub static_rate: u8,
    /// Whether packets have a global route header. Always 1 on Ethernet.
    pub is_global: u8,
    /// The port, from 1 on.
    pub port_num: u8,
}

layout!(QpDest: size 32, align 4, {
    dgid: 0, flow_label: 16, dlid: 20, reserved: 22, sgid_index: 24, hop_limit: 25,
    traffic_class: 26, sl: 27, src_path_bits: 28, static_rate: 29, is_global: 30, port_num: 31,
});

/// Changes a queue pair (`struct ib_uverbs_modify_qp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C, align(8))]
pub struct ModifyQp {
    /// The way to the peer.
    pub dest: QpDest,
    /// Another way to the peer.
    pub alt_dest: QpDest,
    /// The queue pair.
    pub qp_handle: u32,
    /// Which fields count.
    pub attr_mask: QpAttrMask,
    /// The queue key.
    pub qkey: u32,
    /// The number of the first packet to come in: 24 bits.
    pub rq_psn: u32,
    /// The number of the first packet to go out: 24 bits.
    pub sq_psn: u32,
    /// The peer's queue pair.
    pub dest_qp_num: u32,
    /// What the peer may do.
    pub qp_access_flags: AccessFlags,
    /// The partition.
    pub pkey_index: u16,
    /// The partition of the other way.
    pub alt_pkey_index: u16,
    /// The number of a [`QpState`] to go to.
    pub qp_state: u8,
    /// The number of the [`QpState`] it should be in.
    pub cur_qp_state: u8,
    /// The number of an [`Mtu`](super::port::Mtu).
    pub path_mtu: u8,
    /// The state of moving to the other way.
    pub path_mig_state: u8,
    /// Whether draining raises an event.
    pub en_sqd_async_notify: u8,
    /// The most reads and atomics going out.
    pub max_rd_atomic: u8,
    /// The most reads and atomics coming in.
    pub max_dest_rd_atomic: u8,
    /// How long a peer without a receive here waits, in a code of 5 bits.
    pub min_rnr_timer: u8,
    /// The port, from 1 on.
    pub port_num: u8,
    /// How long an acknowledgement may take: 4.096 us times 2 to this power; 0 for ever.
    pub timeout: u8,
    /// How often to send again without an acknowledgement: up to 7.
    pub retry_cnt: u8,
    /// How often to send again without a receive there: up to 6; 7 for ever.
    pub rnr_retry: u8,
    /// The port of the other way.
    pub alt_port_num: u8,
    /// The timeout of the other way.
    pub alt_timeout: u8,
    /// 0.
    pub reserved: [u8; 2],
}

layout!(ModifyQp: size 112, align 8, {
    dest: 0, alt_dest: 32, qp_handle: 64, attr_mask: 68, qkey: 72, rq_psn: 76, sq_psn: 80,
    dest_qp_num: 84, qp_access_flags: 88, pkey_index: 92, alt_pkey_index: 94, qp_state: 96,
    cur_qp_state: 97, path_mtu: 98, path_mig_state: 99, en_sqd_async_notify: 100,
    max_rd_atomic: 101, max_dest_rd_atomic: 102, min_rnr_timer: 103, port_num: 104, timeout: 105,
    retry_cnt: 106, rnr_retry: 107, alt_port_num: 108, alt_timeout: 109, reserved: 110,
});

/// Changes a queue pair (`struct ib_uverbs_ex_modify_qp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExModifyQp {
    /// What kernels knew before.
    pub base: ModifyQp,
    /// The most speed, of raw packets.
    pub rate_limit: u32,
    /// 0.
    pub reserved: u32,
}

layout!(ExModifyQp: size 120, align 8, { base: 0, rate_limit: 112, reserved: 116 });

/// The answer to a change (`struct ib_uverbs_ex_modify_qp_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExModifyQpResp {
    /// 0.
    pub comp_mask: u32,
    /// Bytes of this answer that the kernel filled in.
    pub response_length: u32,
}

layout!(ExModifyQpResp: size 8, align 4, { comp_mask: 0, response_length: 4 });

/// Asks about a queue pair (`struct ib_uverbs_query_qp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryQp {
    /// 0.
    pub response: u64,
    /// The queue pair.
    pub qp_handle: u32,
    /// Which fields are asked for.
    pub attr_mask: QpAttrMask,
}

layout!(QueryQp: size 16, align 8, { response: 0, qp_handle: 8, attr_mask: 12 });

/// What a queue pair is (`struct ib_uverbs_query_qp_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C, align(8))]
pub struct QueryQpResp {
    /// The way to the peer.
    pub dest: QpDest,
    /// Another way to the peer.
    pub alt_dest: QpDest,
    /// Entries of the send queue.
    pub max_send_wr: u32,
    /// Entries of the receive queue.
    pub max_recv_wr: u32,
    /// Gather entries of a send entry.
    pub max_send_sge: u32,
    /// Scatter entries of a receive.
    pub max_recv_sge: u32,
    /// Bytes that a send entry may carry itself.
    pub max_inline_data: u32,
    /// The queue key.
    pub qkey: u32,
    /// The number of the next packet to come in: 24 bits.
    pub rq_psn: u32,
    /// The number of the next packet to go out: 24 bits.
    pub sq_psn: u32,
    /// The peer's queue pair.
    pub dest_qp_num: u32,
    /// What the peer may do.
    pub qp_access_flags: AccessFlags,
    /// The partition.
    pub pkey_index: u16,
    /// The partition of the other way.
    pub alt_pkey_index: u16,
    /// The number of its [`QpState`].
    pub qp_state: u8,
    /// The number of its [`QpState`].
    pub cur_qp_state: u8,
    /// The number of an [`Mtu`](super::port::Mtu).
    pub path_mtu: u8,
    /// The state of moving to the other way.
    pub path_mig_state: u8,
    /// Whether its send queue drains.
    pub sq_draining: u8,
    /// The most reads and atomics going out.
    pub max_rd_atomic: u8,
    /// The most reads and atomics coming in.
    pub max_dest_rd_atomic: u8,
    /// How long a peer without a receive here waits, in a code of 5 bits.
    pub min_rnr_timer: u8,
    /// The port.
    pub port_num: u8,
    /// How long an acknowledgement may take, as in [`ModifyQp`].
    pub timeout: u8,
    /// How often to send again without an acknowledgement.
    pub retry_cnt: u8,
    /// How often to send again without a receive there.
    pub rnr_retry: u8,
    /// The port of the other way.
    pub alt_port_num: u8,
    /// The timeout of the other way.
    pub alt_timeout: u8,
    /// Whether every send entry completes with a completion.
    pub sq_sig_all: u8,
    /// 0.
    pub reserved: [u8; 5],
}

layout!(QueryQpResp: size 128, align 8, {
    dest: 0, alt_dest: 32, max_send_wr: 64, max_recv_wr: 68, max_send_sge: 72, max_recv_sge: 76,
    max_inline_data: 80, qkey: 84, rq_psn: 88, sq_psn: 92, dest_qp_num: 96, qp_access_flags: 100,
    pkey_index: 104, alt_pkey_index: 106, qp_state: 108, cur_qp_state: 109, path_mtu: 110,
    path_mig_state: 111, sq_draining: 112, max_rd_atomic: 113, max_dest_rd_atomic: 114,
    min_rnr_timer: 115, port_num: 116, timeout: 117, retry_cnt: 118, rnr_retry: 119,
    alt_port_num: 120, alt_timeout: 121, sq_sig_all: 122, reserved: 123,
});

/// Destroys a queue pair (`struct ib_uverbs_destroy_qp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyQp {
    /// 0.
    pub response: u64,
    /// Its handle.
    pub qp_handle: u32,
    /// 0.
    pub reserved: u32,
}

layout!(DestroyQp: size 16, align 8, { response: 0, qp_handle: 8, reserved: 12 });

/// How many events the queue pair had raised (`struct ib_uverbs_destroy_qp_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyQpResp {
    /// Asynchronous events.
    pub events_reported: u32,
}

layout!(DestroyQpResp: size 4, align 4, { events_reported: 0 });
