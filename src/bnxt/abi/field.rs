//! The packed fields of commands and answers.
//!
//! From Linux' `roce_hsi.h`.

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The page table of a queue pair's ring (`CMDQ_CREATE_QP_SQ_LVL_*`, `_SQ_PG_SIZE_*`).
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct QueuePages {
    /// Levels of tables: 0 to 2.
    #[bits(4)]
    pub levels: u8,
    /// The pages' size: 0 for 4 KiB, 1 for 8 KiB, 2 for 64 KiB, 3 for 2 MiB, 4 for 8 MiB, 5 for 1 GiB.
    #[bits(4)]
    pub page_size: u8,
}

/// The page table of a completion ring (`CMDQ_CREATE_CQ_LVL_*`, `_PG_SIZE_*`).
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct CompletionPages {
    /// Levels of tables: 0 to 2.
    #[bits(2)]
    pub levels: u8,
    /// The pages' size, as for [`QueuePages`].
    #[bits(3)]
    pub page_size: u8,
    #[bits(27)]
    __: u32,
}

/// The page table of a region (`CMDQ_REGISTER_MR_LVL_*`, `_LOG2_PG_SIZE_*`).
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct RegionPages {
    /// Levels of tables: 0 to 2.
    #[bits(2)]
    pub levels: u8,
    /// The binary logarithm of the pages' size: 12 to 30.
    #[bits(5)]
    pub log2_page_size: u8,
    __: bool,
}

/// What may be done with a region (`CMDQ_REGISTER_MR_ACCESS_*`). Not the bits of [`QueuePairAccess`].
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct RegionAccess {
    /// The own side writes it: receives, reads and atomics put their bytes there.
    pub local_write: bool,
    /// Peers read it.
    pub remote_read: bool,
    /// Peers write it.
    pub remote_write: bool,
    /// Peers do atomics on it.
    pub remote_atomic: bool,
    /// Windows may be bound to it.
    pub window_bind: bool,
    /// Its first byte's address is 0.
    pub zero_based: bool,
    #[bits(2)]
    __: u8,
}

/// What the peer may do through a queue pair (`CMDQ_MODIFY_QP_ACCESS_*`). Not the bits of
/// [`RegionAccess`].
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct QueuePairAccess {
    /// The own side writes its memory.
    pub local_write: bool,
    /// The peer writes.
    pub remote_write: bool,
    /// The peer reads.
    pub remote_read: bool,
    /// The peer does atomics.
    pub remote_atomic: bool,
    #[bits(4)]
    __: u8,
}

/// How a queue pair works (`CMDQ_CREATE_QP_QP_FLAGS_*`).
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct QueuePairFlags {
    /// Receives come from a shared receive queue.
    pub srq_used: bool,
    /// Every request completes with a completion, signaled or not.
    pub force_completion: bool,
    /// Key 0xffff_ffff stands for device addresses.
    pub reserved_lkey_enable: bool,
    /// Fast registration is allowed.
    pub fast_register_enabled: bool,
    /// Entries of the send ring are as long as they need to be.
    pub variable_sized_wqe_enabled: bool,
    /// Transmission is optimized.
    pub optimized_transmit_enabled: bool,
    /// Completions of datagrams carry metadata.
    pub responder_ud_cqe_with_cfa: bool,
    /// Extended statistics are kept.
    pub ext_stats_enabled: bool,
    /// Express mode.
    pub express_mode_enabled: bool,
    /// The steering tag counts.
    pub steering_tag_valid: bool,
    /// Reads or atomics are used.
    pub rdma_read_or_atomics_used: bool,
    #[bits(21)]
    __: u32,
}

/// What a modification changes (`CMDQ_MODIFY_QP_MODIFY_MASK_*`).
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct ModifyMask {
    /// The state.
    pub state: bool,
    /// Whether draining raises an event.
    pub en_sqd_async_notify: bool,
    /// What the peer may do.
    pub access: bool,
    /// The partition key.
    pub pkey: bool,
    /// The queue key.
    pub qkey: bool,
    /// The peer's global identifier.
    pub dgid: bool,
    /// The flow label.
    pub flow_label: bool,
    /// The own global identifier.
    pub sgid_index: bool,
    /// The hop limit.
    pub hop_limit: bool,
    /// The traffic class.
    pub traffic_class: bool,
    /// The peer's Ethernet address.
    pub dest_mac: bool,
    /// Push mode.
    pub pingpong_push_mode: bool,
    /// The path's MTU.
    pub path_mtu: bool,
    /// The acknowledgement timeout.
    pub timeout: bool,
    /// The retries.
    pub retry_cnt: bool,
    /// The receiver-not-ready retries.
    pub rnr_retry: bool,
    /// The packet sequence number to expect.
    pub rq_psn: bool,
    /// Slots of outbound reads and atomics.
    pub max_rd_atomic: bool,
    /// The receiver-not-ready timer.
    pub min_rnr_timer: bool,
    /// The packet sequence number to send.
    pub sq_psn: bool,
    /// Slots of inbound reads and atomics.
    pub max_dest_rd_atomic: bool,
    /// The send ring's length.
    pub sq_size: bool,
    /// The receive ring's length.
    pub rq_size: bool,
    /// Pieces of a request.
    pub sq_sge: bool,
    /// Pieces of a receive.
    pub rq_sge: bool,
    /// Inline bytes.
    pub max_inline_data: bool,
    /// The peer's queue pair.
    pub dest_qp_id: bool,
    /// The own Ethernet address.
    pub src_mac: bool,
    /// The VLAN.
    pub vlan_id: bool,
    /// Congestion control.
    pub enable_cc: bool,
    /// The ECN bits.
    pub tos_ecn: bool,
    /// The DSCP bits.
    pub tos_dscp: bool,
}

codes! {
    /// What kind of queue pair it is (`CMDQ_CREATE_QP_TYPE_*`).
    pub enum QueuePairKind: u8, "queue pair kind" {
        /// Reliable connection.
        ReliableConnected = 2, "CMDQ_CREATE_QP_TYPE_RC";
        /// Unreliable datagrams.
        Datagram = 4, "CMDQ_CREATE_QP_TYPE_UD";
        /// Raw Ethernet.
        RawEthernet = 6, "CMDQ_CREATE_QP_TYPE_RAW_ETHERTYPE";
        /// General services: queue pair 1.
        GeneralServices = 7, "CMDQ_CREATE_QP_TYPE_GSI";
    }
}

codes! {
    /// A state of a queue pair, as firmware knows it.
    pub enum QueuePairState: u8, "queue pair state" {
        /// Made, and nothing else.
        Reset = 0, "CMDQ_MODIFY_QP_NEW_STATE_RESET";
        /// The peer's rights are set.
        Init = 1, "CMDQ_MODIFY_QP_NEW_STATE_INIT";
        /// Ready to receive.
        ReadyToReceive = 2, "CMDQ_MODIFY_QP_NEW_STATE_RTR";
        /// Ready to send.
        ReadyToSend = 3, "CMDQ_MODIFY_QP_NEW_STATE_RTS";
        /// Its send queue is drained.
        SendDrained = 4, "CMDQ_MODIFY_QP_NEW_STATE_SQD";
        /// Its send queue has failed.
        SendError = 5, "CMDQ_MODIFY_QP_NEW_STATE_SQE";
        /// Failed, or taken down.
        Error = 6, "CMDQ_MODIFY_QP_NEW_STATE_ERR";
    }
}

codes! {
    /// The protocol that carries packets: the two upper bits of [`StateByte`].
    pub enum NetworkKind: u8, "network protocol" {
        /// RoCE v1: Ethernet only.
        RoceV1 = 0, "CMDQ_CREATE_AH_TYPE_V1";
        /// RoCE v2 over IPv4.
        RoceV2Ipv4 = 2, "CMDQ_CREATE_AH_TYPE_V2IPV4";
        /// RoCE v2 over IPv6.
        RoceV2Ipv6 = 3, "CMDQ_CREATE_AH_TYPE_V2IPV6";
    }
}

/// A queue pair's new state, and the network's protocol (`CMDQ_MODIFY_QP_NEW_STATE_*`,
/// `_NETWORK_TYPE_*`).
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct StateByte {
    /// The number of a [`QueuePairState`].
    #[bits(4)]
    pub state: u8,
    /// Whether draining raises an event.
    pub en_sqd_async_notify: bool,
    __: bool,
    /// The number of a [`NetworkKind`].
    #[bits(2)]
    pub network: u8,
}

impl StateByte {
    /// The byte with this state and this protocol.
    pub const fn of(state: QueuePairState, network: NetworkKind) -> Self {
        Self::from_bits((network as u8) << Self::NETWORK_OFFSET | state as u8)
    }
}

/// The MTU of a path (`CMDQ_MODIFY_QP_PATH_MTU_*`).
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct PathMtuByte {
    /// Push mode.
    pub pingpong_push_enable: bool,
    #[bits(3)]
    __: u8,
    /// The MTU: 0 for 256 bytes, up to 5 for 8192.
    #[bits(4)]
    pub mtu: u8,
}

/// A global identifier as the table of them holds it: its 16 bytes reversed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct ReversedGid([u8; 16]);

impl ReversedGid {
    /// From the identifier in network order.
    pub fn of(mut gid: [u8; 16]) -> Self {
        gid.reverse();
        ReversedGid(gid)
    }

    /// The identifier in network order.
    pub fn get(self) -> [u8; 16] {
        let mut gid = self.0;
        gid.reverse();
        gid
    }
}

/// An Ethernet address as the table of global identifiers holds it: the bytes of each half-word
/// swapped.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct SwappedMac([u8; 6]);

impl SwappedMac {
    /// From the address in network order.
    pub const fn of([a, b, c, d, e, f]: [u8; 6]) -> Self {
        SwappedMac([b, a, d, c, f, e])
    }

    /// The address in network order.
    pub const fn get(self) -> [u8; 6] {
        Self::of(self.0).0
    }
}

/// What the device can (`dev_cap_flags`).
#[bitfield(u16, repr = U16, from = U16::new, into = U16::get)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct DeviceFlags {
    /// Queue pairs can be resized.
    pub resize_qp: bool,
    /// The generation of congestion control.
    #[bits(3)]
    pub cc_generation: u8,
    /// Extended statistics.
    pub ext_stats: bool,
    /// Registering a region allocates its key.
    pub mr_register_alloc: bool,
    /// Transmission is optimized.
    pub optimized_transmit_enabled: bool,
    /// The second version of completions.
    pub cqe_v2: bool,
    /// Push mode.
    pub pingpong_push_mode: bool,
    /// The NIC sends again by itself, as a requester.
    pub hw_requester_retx_enabled: bool,
    /// The NIC sends again by itself, as a responder.
    pub hw_responder_retx_enabled: bool,
    #[bits(5)]
    __: u8,
}

/// What else the device can (`dev_cap_ext_flags_2`).
#[bitfield(u16, repr = U16, from = U16::new, into = U16::get)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct DeviceFlags2 {
    /// Modifying a queue pair can be optimized.
    pub optimize_modify_qp_supported: bool,
    /// An entry can change the UDP source port.
    pub change_udp_src_port_wqe_supported: bool,
    /// Completions can be coalesced.
    pub cq_coalescing_supported: bool,
    /// Regions can have relaxed ordering.
    pub memory_region_ro_supported: bool,
    /// Where the NIC looks up what to send again: the number of a [`RetransmissionTable`].
    #[bits(2)]
    pub req_retransmission_support: u8,
    #[bits(10)]
    __: u16,
}

codes! {
    /// Where the NIC looks up what to send again.
    pub enum RetransmissionTable: u8, "retransmission table" {
        /// In a table with an entry for each slot of the send ring, that the driver writes.
        HostPsnTable = 0, "CREQ_QUERY_FUNC_RESP_SB_REQ_RETRANSMISSION_SUPPORT_HOST_PSN_TABLE";
        /// In a table with an entry for each message, that the driver writes.
        HostMsnTable = 1, "CREQ_QUERY_FUNC_RESP_SB_REQ_RETRANSMISSION_SUPPORT_HOST_MSN_TABLE";
        /// In a table of its own.
        InternalMsnTable = 2, "CREQ_QUERY_FUNC_RESP_SB_REQ_RETRANSMISSION_SUPPORT_IQM_MSN_TABLE";
    }
}
