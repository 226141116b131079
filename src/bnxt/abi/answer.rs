//! What the RoCE engine's firmware answers commands with in memory.
//!
//! From Linux' `roce_hsi.h`. All little-endian, but where a field says otherwise.

use super::field::{DeviceFlags, DeviceFlags2, QueuePairAccess, ReversedGid, SwappedMac};
use zerocopy::little_endian::{U16, U32, U64};

structures! {
    /// What the function can.
    pub struct FunctionAnswer, "creq_query_func_resp_sb", size 160 {
        /// The command that this answers.
        opcode: u8, 0x0;
        /// 0, or why the command failed: a [`CommandStatus`](super::event::CommandStatus).
        status: u8, 0x1;
        /// The command's cookie.
        cookie: U16, 0x2;
        /// The command's flags.
        flags: U16, 0x4;
        /// The answer's size in units of 16 bytes.
        resp_size: u8, 0x6;
        /// 0.
        reserved8: u8, 0x7;
        /// The most bytes of a region.
        max_mr_size: U64, 0x8;
        /// Queue pairs, less one.
        max_qp: U32, 0x10;
        /// Entries of a queue.
        max_qp_wr: U16, 0x14;
        /// What the device can.
        dev_cap_flags: DeviceFlags, 0x16;
        /// Completion queues.
        max_cq: U32, 0x18;
        /// Entries of a completion queue.
        max_cqe: U32, 0x1c;
        /// Protection domains.
        max_pd: U32, 0x20;
        /// Pieces of an entry of fixed size.
        max_sge: u8, 0x24;
        /// Pieces of an entry of a shared receive queue.
        max_srq_sge: u8, 0x25;
        /// Reads and atomics that a queue pair answers at once.
        max_qp_rd_atom: u8, 0x26;
        /// Reads and atomics that a queue pair has under way at once.
        max_qp_init_rd_atom: u8, 0x27;
        /// Regions.
        max_mr: U32, 0x28;
        /// Memory windows.
        max_mw: U32, 0x2c;
        /// Queue pairs for raw Ethernet.
        max_raw_eth_qp: U32, 0x30;
        /// Address handles.
        max_ah: U32, 0x34;
        /// Fast memory regions.
        max_fmr: U32, 0x38;
        /// Entries of a shared receive queue.
        max_srq_wr: U32, 0x3c;
        /// Partition keys.
        max_pkeys: U32, 0x40;
        /// Inline bytes of an entry of fixed size.
        max_inline_data: U32, 0x44;
        /// Maps of a fast memory region.
        max_map_per_fmr: u8, 0x48;
        /// Pages of doorbells for Ethernet.
        l2_db_space_size: u8, 0x49;
        /// Shared receive queues.
        max_srq: U16, 0x4a;
        /// Global identifiers.
        max_gid: U32, 0x4c;
        /// Transmit queue memory to allocate, of older chips.
        tqm_alloc_reqs: [U32; 12], 0x50;
        /// Doorbell pages; 0 says nothing.
        max_dpi: U32, 0x80;
        /// Pieces of an entry of variable size.
        max_sge_var_wqe: u8, 0x84;
        /// What else the device can.
        dev_cap_ext_flags: u8, 0x85;
        /// Inline bytes of an entry of variable size.
        max_inline_data_var_wqe: U16, 0x86;
        /// The number of the first queue pair.
        start_qid: U32, 0x88;
        /// The binary logarithm of the largest message table.
        max_msn_table_size: u8, 0x8c;
        /// 0.
        reserved8_1: u8, 0x8d;
        /// What else the device can.
        dev_cap_ext_flags_2: DeviceFlags2, 0x8e;
        /// Entries of an express queue pair.
        max_xp_qp_size: U16, 0x90;
        /// Queue pairs that are created in one batch.
        create_qp_batch_size: U16, 0x92;
        /// Queue pairs that are destroyed in one batch.
        destroy_qp_batch_size: U16, 0x94;
        /// 0.
        reserved16: U16, 0x96;
        /// 0.
        reserved64: U64, 0x98;
    }

    /// What is known of a queue pair.
    pub struct QueuePairAnswer, "creq_query_qp_resp_sb", size 104 {
        /// The command that this answers.
        opcode: u8, 0x0;
        /// 0, or why the command failed: a [`CommandStatus`](super::event::CommandStatus).
        status: u8, 0x1;
        /// The command's cookie.
        cookie: U16, 0x2;
        /// The command's flags.
        flags: U16, 0x4;
        /// The answer's size in units of 16 bytes.
        resp_size: u8, 0x6;
        /// 0.
        reserved8: u8, 0x7;
        /// The object that the command made or named.
        xid: U32, 0x8;
        /// The state, in the low 4 bits.
        en_sqd_async_notify_state: u8, 0xc;
        /// What the peer may do.
        access: QueuePairAccess, 0xd;
        /// The partition key.
        pkey: U16, 0xe;
        /// The queue key, of datagrams.
        qkey: U32, 0x10;
        /// 0.
        reserved32: U32, 0x14;
        /// The peer's global identifier, in network order.
        dgid: [u8; 16], 0x18;
        /// The flow label of packets.
        flow_label: U32, 0x28;
        /// The own global identifier's hardware index.
        sgid_index: U16, 0x2c;
        /// How many routers a packet may pass.
        hop_limit: u8, 0x2e;
        /// The traffic class of packets.
        traffic_class: u8, 0x2f;
        /// The peer's Ethernet address, in network order.
        dest_mac: [u8; 6], 0x30;
        /// The VLAN in the low 12 bits, the path's MTU above.
        path_mtu_dest_vlan_id: U16, 0x36;
        /// The acknowledgement timeout, as the specification's number.
        timeout: u8, 0x38;
        /// How often an unacknowledged request is sent again.
        retry_cnt: u8, 0x39;
        /// How often a request is sent again that found no receive.
        rnr_retry: u8, 0x3a;
        /// How long a peer that finds no receive is asked to wait, as the specification's number.
        min_rnr_timer: u8, 0x3b;
        /// The first packet sequence number to expect.
        rq_psn: U32, 0x3c;
        /// The first packet sequence number to send.
        sq_psn: U32, 0x40;
        /// Slots of the table of outbound reads and atomics.
        max_rd_atomic: u8, 0x44;
        /// Slots of the table of inbound reads and atomics.
        max_dest_rd_atomic: u8, 0x45;
        /// The DSCP and ECN bits of packets.
        tos_dscp_tos_ecn: u8, 0x46;
        /// Whether congestion control is on.
        enable_cc: u8, 0x47;
        /// The send ring's length, in slots of 16 bytes where entries vary in size.
        sq_size: U32, 0x48;
        /// The receive ring's length, in entries.
        rq_size: U32, 0x4c;
        /// The most pieces of a request.
        sq_sge: U16, 0x50;
        /// The most pieces of a receive.
        rq_sge: U16, 0x52;
        /// Inline bytes of an entry of fixed size.
        max_inline_data: U32, 0x54;
        /// The peer's queue pair.
        dest_qp_id: U32, 0x58;
        /// The port.
        port_id: U16, 0x5c;
        /// 0.
        unused_0: u8, 0x5e;
        /// The statistics.
        stat_collection_id: u8, 0x5f;
        /// The own Ethernet address, in network order.
        src_mac: [u8; 6], 0x60;
        /// The VLAN tag; 0 for none.
        vlan_pcp_vlan_dei_vlan_id: U16, 0x66;
    }

    /// A global identifier.
    pub struct GidAnswer, "creq_query_gid_resp_sb", size 40 {
        /// The command that this answers.
        opcode: u8, 0x0;
        /// 0, or why the command failed: a [`CommandStatus`](super::event::CommandStatus).
        status: u8, 0x1;
        /// The command's cookie.
        cookie: U16, 0x2;
        /// The command's flags.
        flags: U16, 0x4;
        /// The answer's size in units of 16 bytes.
        resp_size: u8, 0x6;
        /// 0.
        reserved8: u8, 0x7;
        /// The identifier, its bytes reversed.
        gid: ReversedGid, 0x8;
        /// The Ethernet address, the bytes of each half-word swapped.
        src_mac: SwappedMac, 0x18;
        /// The VLAN tag; 0 for none.
        vlan: U16, 0x1e;
        /// The first IP identification.
        ipid: U16, 0x20;
        /// The identifier's hardware index.
        gid_index: U16, 0x22;
        /// 0.
        unused_0: U32, 0x24;
    }

    /// What is known of a shared receive queue.
    pub struct SharedReceiveQueueAnswer, "creq_query_srq_resp_sb", size 32 {
        /// The command that this answers.
        opcode: u8, 0x0;
        /// 0, or why the command failed: a [`CommandStatus`](super::event::CommandStatus).
        status: u8, 0x1;
        /// The command's cookie.
        cookie: U16, 0x2;
        /// The command's flags.
        flags: U16, 0x4;
        /// The answer's size in units of 16 bytes.
        resp_size: u8, 0x6;
        /// 0.
        reserved8: u8, 0x7;
        /// The object that the command made or named.
        xid: U32, 0x8;
        /// The limit below which an event is raised.
        srq_limit: U16, 0xc;
        /// 0.
        reserved16: U16, 0xe;
        /// 0.
        data: [U32; 4], 0x10;
    }
}
