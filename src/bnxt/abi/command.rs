//! Commands of the RoCE engine's firmware: what each carries after its header.
//!
//! A command that is not answered in its event is answered in memory, at the address in its header,
//! with one of [`answer`](super::answer)'s structures.
//!
//! From Linux' `roce_hsi.h`. All little-endian, but where a field says otherwise.

use super::field::{
    CompletionPages, ModifyMask, PathMtuByte, QueuePages, QueuePairAccess, QueuePairFlags,
    RegionAccess, RegionPages, ReversedGid, StateByte, SwappedMac,
};
use super::opcode::Opcode;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes};

structures! {
    /// What every command begins with. Which of the pieces after it counts is the command's.
    pub struct CommandHeader, "cmdq_base", size 16 {
        /// What is asked for: an [`Opcode`].
        opcode: u8, 0x0;
        /// The command's size in units of 16 bytes, rounded up.
        cmd_size: u8, 0x1;
        /// How it is to be done.
        flags: U16, 0x2;
        /// Comes back in the command's event.
        cookie: U16, 0x4;
        /// Room for an answer in memory, in units of 16 bytes.
        resp_size: u8, 0x6;
        /// 0; in [`ModifyQueuePair`], the queue pair's kind.
        reserved8: u8, 0x7;
        /// The device address of that room.
        resp_addr: U64, 0x8;
    }

    /// What the driver writes to the registers to hand the command queue over, and again in part to
    /// ring its doorbell.
    pub struct CommandQueueInit, "cmdq_init", size 16 {
        /// The device address of the command queue's slots, or of their page table.
        cmdq_pbl: U64, 0x0;
        /// Levels of the page table in bits 0 and 1, the number of slots above.
        cmdq_size_cmdq_lvl: U16, 0x8;
        /// The ring number of the event ring.
        creq_ring_id: U16, 0xa;
        /// Slots written so far, modulo 2^16; with bit 31, for the first time.
        prod_idx: U32, 0xc;
    }

    /// Starts the RoCE engine.
    pub struct InitializeFirmware, "cmdq_initialize_fw", size 112 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// Page size and levels of the queue pair context; 0 with a backing store.
        qpc_pg_size_qpc_lvl: u8, 0x10;
        /// Of the region context; 0 with a backing store.
        mrw_pg_size_mrw_lvl: u8, 0x11;
        /// Of the shared receive queue context; 0 with a backing store.
        srq_pg_size_srq_lvl: u8, 0x12;
        /// Of the completion queue context; 0 with a backing store.
        cq_pg_size_cq_lvl: u8, 0x13;
        /// Of the transmit queue memory; 0 with a backing store.
        tqm_pg_size_tqm_lvl: u8, 0x14;
        /// Of the timers; 0 with a backing store.
        tim_pg_size_tim_lvl: u8, 0x15;
        /// The binary logarithm of a doorbell page's size, less 12, in the low 4 bits.
        log2_dbr_pg_size: U16, 0x16;
        /// 0 with a backing store.
        qpc_page_dir: U64, 0x18;
        /// 0 with a backing store.
        mrw_page_dir: U64, 0x20;
        /// 0 with a backing store.
        srq_page_dir: U64, 0x28;
        /// 0 with a backing store.
        cq_page_dir: U64, 0x30;
        /// 0 with a backing store.
        tqm_page_dir: U64, 0x38;
        /// 0 with a backing store.
        tim_page_dir: U64, 0x40;
        /// 0 with a backing store.
        number_of_qp: U32, 0x48;
        /// 0 with a backing store.
        number_of_mrw: U32, 0x4c;
        /// 0 with a backing store.
        number_of_srq: U32, 0x50;
        /// 0 with a backing store.
        number_of_cq: U32, 0x54;
        /// Queue pairs that a virtual function may have.
        max_qp_per_vf: U32, 0x58;
        /// Regions and windows that a virtual function may have.
        max_mrw_per_vf: U32, 0x5c;
        /// Shared receive queues that a virtual function may have.
        max_srq_per_vf: U32, 0x60;
        /// Completion queues that a virtual function may have.
        max_cq_per_vf: U32, 0x64;
        /// Global identifiers that a virtual function may have.
        max_gid_per_vf: U32, 0x68;
        /// The statistics context, from the firmware channel's `STAT_CTX_ALLOC`.
        stat_ctx_id: U32, 0x6c;
    }

    /// Stops the RoCE engine.
    pub struct DeinitializeFirmware, "cmdq_deinitialize_fw", size 16 {
        /// What every command begins with.
        header: CommandHeader, 0;
    }

    /// Asks what the function can: answered by [`FunctionAnswer`](super::answer::FunctionAnswer).
    pub struct QueryFunction, "cmdq_query_func", size 16 {
        /// What every command begins with.
        header: CommandHeader, 0;
    }

    /// Asks for versions: answered by [`VersionEvent`](super::event::VersionEvent).
    pub struct QueryVersion, "cmdq_query_version", size 16 {
        /// What every command begins with.
        header: CommandHeader, 0;
    }

    /// Makes a completion queue.
    pub struct CreateCompletionQueue, "cmdq_create_cq", size 56 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// What notifications of the queue carry.
        cq_handle: U64, 0x10;
        /// The ring's page table.
        pg_size_lvl: CompletionPages, 0x18;
        /// The notification queue in the low 12 bits, the first entry's offset above.
        cq_fco_cnq_id: U32, 0x1c;
        /// The doorbell page.
        dpi: U32, 0x20;
        /// Entries of the ring.
        cq_size: U32, 0x24;
        /// The device address of the ring's page table.
        pbl: U64, 0x28;
        /// Where writes are steered to; 0.
        steering_tag: U16, 0x30;
        /// 0.
        reserved48: [u8; 6], 0x32;
    }

    /// Destroys a completion queue: answered by [`DestroyCompletionQueueEvent`](super::event::DestroyCompletionQueueEvent).
    pub struct DestroyCompletionQueue, "cmdq_destroy_cq", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The completion queue.
        cq_cid: U32, 0x10;
        /// 0.
        unused_0: U32, 0x14;
    }

    /// Moves a completion queue to another ring.
    pub struct ResizeCompletionQueue, "cmdq_resize_cq", size 40 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The completion queue.
        cq_cid: U32, 0x10;
        /// The new ring: levels in bits 0 and 1, page size in bits 2 to 4, entries above.
        new_cq_size_pg_size_lvl: U32, 0x14;
        /// The device address of the new ring's page table.
        new_pbl: U64, 0x18;
        /// The first entry's offset.
        new_cq_fco: U32, 0x20;
        /// 0.
        unused_0: U32, 0x24;
    }

    /// Makes a queue pair.
    pub struct CreateQueuePair, "cmdq_create_qp", size 104 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// What completions of the queue pair carry.
        qp_handle: U64, 0x10;
        /// How the queue pair works.
        qp_flags: QueuePairFlags, 0x18;
        /// What kind of queue pair it is.
        kind = "type": u8, 0x1c;
        /// The send ring's page table.
        sq_pg_size_sq_lvl: QueuePages, 0x1d;
        /// The receive ring's page table.
        rq_pg_size_rq_lvl: QueuePages, 0x1e;
        /// 0.
        unused_0: u8, 0x1f;
        /// The doorbell page.
        dpi: U32, 0x20;
        /// The send ring's length, in slots of 16 bytes where entries vary in size.
        sq_size: U32, 0x24;
        /// The receive ring's length, in entries.
        rq_size: U32, 0x28;
        /// The most pieces of a request.
        sq_fwo_sq_sge: U16, 0x2c;
        /// The most pieces of a receive.
        rq_fwo_rq_sge: U16, 0x2e;
        /// The completion queue of requests.
        scq_cid: U32, 0x30;
        /// The completion queue of receives.
        rcq_cid: U32, 0x34;
        /// The shared receive queue.
        srq_cid: U32, 0x38;
        /// The protection domain.
        pd_id: U32, 0x3c;
        /// The device address of the send ring's page table.
        sq_pbl: U64, 0x40;
        /// The device address of the receive ring's page table.
        rq_pbl: U64, 0x48;
        /// The device address of the table of inbound reads and atomics.
        irrq_addr: U64, 0x50;
        /// The device address of the table of outbound reads and atomics.
        orrq_addr: U64, 0x58;
        /// The number that the queue pair should have; 0 for any.
        request_xid: U32, 0x60;
        /// Where writes are steered to; 0.
        steering_tag: U16, 0x64;
        /// 0.
        reserved16: U16, 0x66;
    }

    /// Destroys a queue pair.
    pub struct DestroyQueuePair, "cmdq_destroy_qp", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The queue pair.
        qp_cid: U32, 0x10;
        /// 0.
        unused_0: U32, 0x14;
    }

    /// Changes a queue pair, its state above all.
    pub struct ModifyQueuePair, "cmdq_modify_qp", size 144 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// What of the following counts.
        modify_mask: ModifyMask, 0x10;
        /// The queue pair.
        qp_cid: U32, 0x14;
        /// The new state, and the network's protocol.
        network_type_en_sqd_async_notify_new_state: StateByte, 0x18;
        /// What the peer may do.
        access: QueuePairAccess, 0x19;
        /// The partition key.
        pkey: U16, 0x1a;
        /// The queue key, of datagrams.
        qkey: U32, 0x1c;
        /// The peer's global identifier, in network order.
        dgid: [u8; 16], 0x20;
        /// The flow label of packets.
        flow_label: U32, 0x30;
        /// The own global identifier's hardware index.
        sgid_index: U16, 0x34;
        /// How many routers a packet may pass.
        hop_limit: u8, 0x36;
        /// The traffic class of packets.
        traffic_class: u8, 0x37;
        /// The peer's Ethernet address, in network order.
        dest_mac: [u8; 6], 0x38;
        /// The DSCP and ECN bits of packets.
        tos_dscp_tos_ecn: u8, 0x3e;
        /// The path's MTU.
        path_mtu_pingpong_push_enable: PathMtuByte, 0x3f;
        /// The acknowledgement timeout, as the specification's number.
        timeout: u8, 0x40;
        /// How often an unacknowledged request is sent again.
        retry_cnt: u8, 0x41;
        /// How often a request is sent again that found no receive.
        rnr_retry: u8, 0x42;
        /// How long a peer that finds no receive is asked to wait, as the specification's number.
        min_rnr_timer: u8, 0x43;
        /// The first packet sequence number to expect.
        rq_psn: U32, 0x44;
        /// The first packet sequence number to send.
        sq_psn: U32, 0x48;
        /// Slots of the table of outbound reads and atomics.
        max_rd_atomic: u8, 0x4c;
        /// Slots of the table of inbound reads and atomics.
        max_dest_rd_atomic: u8, 0x4d;
        /// Whether congestion control is on.
        enable_cc: U16, 0x4e;
        /// The send ring's length, in slots of 16 bytes where entries vary in size.
        sq_size: U32, 0x50;
        /// The receive ring's new length.
        rq_size: U32, 0x54;
        /// The most pieces of a request.
        sq_sge: U16, 0x58;
        /// The most pieces of a receive.
        rq_sge: U16, 0x5a;
        /// Inline bytes of an entry of fixed size.
        max_inline_data: U32, 0x5c;
        /// The peer's queue pair.
        dest_qp_id: U32, 0x60;
        /// 0.
        pingpong_push_dpi: U32, 0x64;
        /// The own Ethernet address, in network order.
        src_mac: [u8; 6], 0x68;
        /// The VLAN tag; 0 for none.
        vlan_pcp_vlan_dei_vlan_id: U16, 0x6e;
        /// The device address of the table of inbound reads and atomics.
        irrq_addr: U64, 0x70;
        /// The device address of the table of outbound reads and atomics.
        orrq_addr: U64, 0x78;
        /// What of the extended fields counts.
        ext_modify_mask: U32, 0x80;
        /// The statistics context.
        ext_stats_ctx_id: U32, 0x84;
        /// The scheduling queue.
        schq_id: U16, 0x88;
        /// 0.
        unused_0: U16, 0x8a;
        /// 0.
        reserved32: U32, 0x8c;
    }

    /// Asks about a queue pair: answered by [`QueuePairAnswer`](super::answer::QueuePairAnswer).
    pub struct QueryQueuePair, "cmdq_query_qp", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The queue pair.
        qp_cid: U32, 0x10;
        /// 0.
        unused_0: U32, 0x14;
    }

    /// Allocates the key of a region or a window.
    pub struct AllocateKey, "cmdq_allocate_mrw", size 32 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// Not used by the NIC.
        mrw_handle: U64, 0x10;
        /// The kind of region or window, in the low 4 bits.
        mrw_flags: u8, 0x18;
        /// What a window allows.
        access: u8, 0x19;
        /// Where writes are steered to; 0.
        steering_tag: U16, 0x1a;
        /// The protection domain.
        pd_id: U32, 0x1c;
    }

    /// Frees the key of a region or a window, and the region with it.
    pub struct DeallocateKey, "cmdq_deallocate_key", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The kind of region or window, in the low 4 bits.
        mrw_flags: u8, 0x10;
        /// 0.
        unused24: [u8; 3], 0x11;
        /// The key.
        key: U32, 0x14;
    }

    /// Registers a region.
    pub struct RegisterRegion, "cmdq_register_mr", size 56 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The region's page table.
        log2_pg_size_lvl: RegionPages, 0x10;
        /// What may be done with the region.
        access: RegionAccess, 0x11;
        /// The binary logarithm of the size of the page table's own pages, in the low 5 bits.
        log2_pbl_pg_size: U16, 0x12;
        /// The region's key; or its protection domain, if the command allocates it.
        key: U32, 0x14;
        /// The device address of the ring's page table.
        pbl: U64, 0x18;
        /// The address by which the region's first byte is named.
        va: U64, 0x20;
        /// The region's bytes.
        mr_size: U64, 0x28;
        /// Where writes are steered to; 0.
        steering_tag: U16, 0x30;
        /// 0.
        reserved48: [u8; 6], 0x32;
    }

    /// Deregisters a region, and keeps its key.
    pub struct DeregisterRegion, "cmdq_deregister_mr", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The region's key.
        lkey: U32, 0x10;
        /// 0.
        unused_0: U32, 0x14;
    }

    /// Adds a global identifier.
    pub struct AddGid, "cmdq_add_gid", size 48 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The identifier, its bytes reversed.
        gid: ReversedGid, 0x10;
        /// The Ethernet address, the bytes of each half-word swapped.
        src_mac: SwappedMac, 0x20;
        /// The VLAN tag; 0 for none.
        vlan: U16, 0x26;
        /// The first IP identification.
        ipid: U16, 0x28;
        /// The statistics context, with bit 15 if there is one.
        stats_ctx: U16, 0x2a;
        /// 0.
        unused_0: U32, 0x2c;
    }

    /// Takes a global identifier away.
    pub struct DeleteGid, "cmdq_delete_gid", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The identifier's hardware index.
        gid_index: U16, 0x10;
        /// 0.
        unused_0: [u8; 6], 0x12;
    }

    /// Changes a global identifier.
    pub struct ModifyGid, "cmdq_modify_gid", size 48 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The identifier, its bytes reversed.
        gid: ReversedGid, 0x10;
        /// The Ethernet address, the bytes of each half-word swapped.
        src_mac: SwappedMac, 0x20;
        /// The VLAN tag; 0 for none.
        vlan: U16, 0x26;
        /// The first IP identification.
        ipid: U16, 0x28;
        /// The identifier's hardware index.
        gid_index: U16, 0x2a;
        /// The statistics context, with bit 15 if there is one.
        stats_ctx: U16, 0x2c;
        /// 0.
        unused_0: U16, 0x2e;
    }

    /// Asks about a global identifier: answered by [`GidAnswer`](super::answer::GidAnswer).
    pub struct QueryGid, "cmdq_query_gid", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The identifier's hardware index.
        gid_index: U16, 0x10;
        /// 0.
        unused16: [u8; 6], 0x12;
    }

    /// Makes an address handle.
    pub struct CreateAddressHandle, "cmdq_create_ah", size 64 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// Not used by the NIC.
        ah_handle: U64, 0x10;
        /// The peer's global identifier, in network order.
        dgid: [u8; 16], 0x18;
        /// The network's protocol.
        kind = "type": u8, 0x28;
        /// How many routers a packet may pass.
        hop_limit: u8, 0x29;
        /// The own global identifier's hardware index.
        sgid_index: U16, 0x2a;
        /// The flow label in the low 20 bits, the VLAN above.
        dest_vlan_id_flow_label: U32, 0x2c;
        /// The protection domain.
        pd_id: U32, 0x30;
        /// 0.
        unused_0: U32, 0x34;
        /// The peer's Ethernet address, in network order.
        dest_mac: [u8; 6], 0x38;
        /// The traffic class of packets.
        traffic_class: u8, 0x3e;
        /// Whether congestion control is on.
        enable_cc: u8, 0x3f;
    }

    /// Destroys an address handle.
    pub struct DestroyAddressHandle, "cmdq_destroy_ah", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The address handle.
        ah_cid: U32, 0x10;
        /// 0.
        unused_0: U32, 0x14;
    }

    /// Makes a shared receive queue.
    pub struct CreateSharedReceiveQueue, "cmdq_create_srq", size 56 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// What events of the queue carry.
        srq_handle: U64, 0x10;
        /// The ring's page table: levels in bits 0 and 1, page size in bits 2 to 4.
        pg_size_lvl: U16, 0x18;
        /// The notification queue, in the low 12 bits.
        eventq_id: U16, 0x1a;
        /// Entries of the ring.
        srq_size: U16, 0x1c;
        /// The first entry's offset.
        srq_fwo: U16, 0x1e;
        /// The doorbell page.
        dpi: U32, 0x20;
        /// The protection domain.
        pd_id: U32, 0x24;
        /// The device address of the ring's page table.
        pbl: U64, 0x28;
        /// Where writes are steered to; 0.
        steering_tag: U16, 0x30;
        /// 0.
        reserved48: [u8; 6], 0x32;
    }

    /// Destroys a shared receive queue.
    pub struct DestroySharedReceiveQueue, "cmdq_destroy_srq", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The shared receive queue.
        srq_cid: U32, 0x10;
        /// 0.
        unused_0: U32, 0x14;
    }

    /// Asks about a shared receive queue: answered by [`SharedReceiveQueueAnswer`](super::answer::SharedReceiveQueueAnswer).
    pub struct QuerySharedReceiveQueue, "cmdq_query_srq", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The shared receive queue.
        srq_cid: U32, 0x10;
        /// 0.
        unused_0: U32, 0x14;
    }

    /// Changes the congestion control.
    pub struct ModifyCongestionControl, "cmdq_modify_roce_cc", size 56 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// What of the following counts.
        modify_mask: U32, 0x10;
        /// Whether congestion control is on.
        enable_cc: u8, 0x14;
        /// The gain of congestion control.
        g: u8, 0x15;
        /// Phases of a state.
        num_phases_per_state: u8, 0x16;
        /// Packets of a phase.
        pkts_per_phase: u8, 0x17;
        /// The current rate at first.
        init_cr: U16, 0x18;
        /// The target rate at first.
        init_tr: U16, 0x1a;
        /// The DSCP and ECN bits of packets.
        tos_dscp_tos_ecn: u8, 0x1c;
        /// The priority of notifications.
        alt_vlan_pcp: u8, 0x1d;
        /// The DSCP of notifications.
        alt_tos_dscp: U16, 0x1e;
        /// The round trip time.
        rtt: U16, 0x20;
        /// The congestion probability of TCP.
        tcp_cp: U16, 0x22;
        /// The mode of congestion control.
        cc_mode: u8, 0x24;
        /// The transmit queue.
        tx_queue: u8, 0x25;
        /// The threshold of inactivity.
        inactivity_th: U16, 0x26;
        /// The time of a phase.
        time_per_phase: u8, 0x28;
        /// 0.
        reserved8_1: u8, 0x29;
        /// 0.
        reserved16: U16, 0x2a;
        /// 0.
        reserved32: U32, 0x2c;
        /// 0.
        reserved64: U64, 0x30;
    }

    /// Asks for statistics.
    pub struct QueryStatistics, "cmdq_query_roce_stats", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The function whose statistics are asked for.
        function_id: U32, 0x10;
        /// 0.
        reserved32: U32, 0x14;
    }

    /// Asks for more statistics.
    pub struct QueryExtendedStatistics, "cmdq_query_roce_stats_ext", size 24 {
        /// What every command begins with.
        header: CommandHeader, 0;
        /// The function whose statistics are asked for.
        function_id: U32, 0x10;
        /// 0.
        reserved32: U32, 0x14;
    }
}

/// A command: bytes that begin with a [`CommandHeader`].
pub trait Command: IntoBytes + FromBytes + Immutable + Copy {
    /// The command's number.
    const OPCODE: Opcode;

    /// What the command begins with.
    fn header(&mut self) -> &mut CommandHeader;
}

macro_rules! commands {
    ($($name:ident: $opcode:ident;)*) => {
        $(
            impl Command for $name {
                const OPCODE: Opcode = Opcode::$opcode;

                fn header(&mut self) -> &mut CommandHeader {
                    &mut self.header
                }
            }
        )*
    };
}

commands! {
    InitializeFirmware: InitializeFirmware;
    DeinitializeFirmware: DeinitializeFirmware;
    QueryFunction: QueryFunction;
    QueryVersion: QueryVersion;
    CreateCompletionQueue: CreateCompletionQueue;
    DestroyCompletionQueue: DestroyCompletionQueue;
    ResizeCompletionQueue: ResizeCompletionQueue;
    CreateQueuePair: CreateQueuePair;
    DestroyQueuePair: DestroyQueuePair;
    ModifyQueuePair: ModifyQueuePair;
    QueryQueuePair: QueryQueuePair;
    AllocateKey: AllocateKey;
    DeallocateKey: DeallocateKey;
    RegisterRegion: RegisterRegion;
    DeregisterRegion: DeregisterRegion;
    AddGid: AddGid;
    DeleteGid: DeleteGid;
    ModifyGid: ModifyGid;
    QueryGid: QueryGid;
    CreateAddressHandle: CreateAddressHandle;
    DestroyAddressHandle: DestroyAddressHandle;
    CreateSharedReceiveQueue: CreateSharedReceiveQueue;
    DestroySharedReceiveQueue: DestroySharedReceiveQueue;
    QuerySharedReceiveQueue: QuerySharedReceiveQueue;
    ModifyCongestionControl: ModifyCongestionControl;
    QueryStatistics: QueryStatistics;
    QueryExtendedStatistics: QueryExtendedStatistics;
}
