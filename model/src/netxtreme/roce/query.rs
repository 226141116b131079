//! What the engine answers when it is asked.

use super::Outcome;
use super::keys::MOST_BYTES;
use super::objects::{MOST_GIDS, SHARED_PIECES};
use crate::netxtreme::command_queue::Finished;
use crate::netxtreme::{Netxtreme, entry};
use doorbell::bnxt::abi::answer::{
    FunctionAnswer, GidAnswer, QueuePairAnswer, SharedReceiveQueueAnswer,
};
use doorbell::bnxt::abi::command::{QueryGid, QueryQueuePair, QuerySharedReceiveQueue};
use doorbell::bnxt::abi::event::CommandStatus;
use doorbell::bnxt::abi::field::{
    DeviceFlags, DeviceFlags2, QueuePairAccess, RetransmissionTable, ReversedGid, SwappedMac,
};
use zerocopy::{FromZeros, Immutable, IntoBytes};

/// Reads and atomics of a queue pair, either way.
const MOST_READS: u8 = 126;
/// Entries of a queue.
const MOST_ENTRIES: u16 = 0x8000;
/// Doorbell pages that RoCE programs may have.
const MOST_PAGES: u32 = 1008;

fn beside(answer: &(impl IntoBytes + Immutable)) -> Outcome {
    Ok(Finished { side: answer.as_bytes().to_vec(), ..Finished::default() })
}

impl Netxtreme {
    pub(super) fn query_function(&self) -> Outcome {
        let bounds = &self.identity.bounds;
        let lent = self.contexts.queue_pairs();
        let pairs = if lent > 0 { lent } else { bounds.queue_pairs };
        let mut can = FunctionAnswer::new_zeroed();
        can.max_mr_size = MOST_BYTES.into();
        // Less queue pair 0 and one more, which the driver adds.
        can.max_qp = pairs.saturating_sub(2).into();
        can.max_qp_wr = MOST_ENTRIES.into();
        can.dev_cap_flags = DeviceFlags::new()
            .with_mr_register_alloc(true)
            .with_hw_requester_retx_enabled(true)
            .with_hw_responder_retx_enabled(true);
        can.max_cq = (2 * pairs).into();
        can.max_cqe = bounds.completions.into();
        can.max_pd = 0x1_0000.into();
        can.max_sge = entry::MOST_PIECES as u8;
        can.max_srq_sge = SHARED_PIECES;
        can.max_qp_rd_atom = MOST_READS;
        can.max_qp_init_rd_atom = MOST_READS;
        can.max_mr = bounds.keys.into();
        can.max_ah = bounds.address_vectors.into();
        can.max_srq_wr = u32::from(MOST_ENTRIES).into();
        can.max_pkeys = 1.into();
        can.max_inline_data = (entry::MOST_INLINE as u32).into();
        can.l2_db_space_size = 1;
        can.max_srq = (bounds.shared_receive_queues.min(0xffff) as u16).into();
        can.max_gid = u32::from(MOST_GIDS).into();
        can.max_dpi = MOST_PAGES.into();
        can.max_sge_var_wqe = entry::MOST_PIECES as u8;
        can.max_inline_data_var_wqe = (entry::MOST_INLINE as u16).into();
        can.max_msn_table_size = 15;
        can.dev_cap_ext_flags_2 = DeviceFlags2::new()
            .with_req_retransmission_support(RetransmissionTable::HostMsnTable.code());
        beside(&can)
    }

    pub(super) fn query_version(&self) -> Outcome {
        // The versions of the firmware, and of its interface.
        Ok(Finished {
            xid: u32::from_le_bytes([233, 0, 0, 0]),
            rest: [0, 0, 1, 10, 3, 85],
            side: Vec::new(),
        })
    }

    pub(super) fn query_gid(&self, command: &QueryGid) -> Outcome {
        let index = command.gid_index.get();
        let known = self.engine.gids.get(&index).ok_or(CommandStatus::InvalidParameter)?;
        let mut answer = GidAnswer::new_zeroed();
        answer.gid = ReversedGid::of(known.gid);
        answer.src_mac = SwappedMac::of(known.mac);
        answer.vlan = known.vlan.into();
        answer.gid_index = index.into();
        beside(&answer)
    }

    pub(super) fn query_shared_receives(&self, command: &QuerySharedReceiveQueue) -> Outcome {
        let number = command.srq_cid.get();
        let known = self.engine.shared.get(&number).ok_or(CommandStatus::InvalidParameter)?;
        let mut answer = SharedReceiveQueueAnswer::new_zeroed();
        answer.xid = number.into();
        answer.srq_limit = (known.limit() as u16).into();
        beside(&answer)
    }

    pub(super) fn query_queue_pair(&self, command: &QueryQueuePair) -> Outcome {
        let number = command.qp_cid.get();
        let pair = self.engine.pairs.get(&number).ok_or(CommandStatus::InvalidParameter)?;
        let (core, known) = (&pair.core, &pair.core.attributes);
        let mut answer = QueuePairAnswer::new_zeroed();
        answer.xid = number.into();
        answer.en_sqd_async_notify_state = core.state.code();
        answer.access = QueuePairAccess::from_bits(known.access);
        answer.pkey = known.partition_key.into();
        answer.qkey = known.queue_key.into();
        answer.dgid = known.gid;
        answer.flow_label = known.flow_label.into();
        answer.sgid_index = known.gid_index.into();
        answer.hop_limit = known.hop_limit;
        answer.traffic_class = known.traffic_class;
        answer.dest_mac = known.destination_mac;
        let mtu = known.mtu.map_or(0, |mtu| mtu as u16);
        answer.path_mtu_dest_vlan_id = (mtu << 12).into();
        answer.timeout = known.timeout;
        answer.retry_cnt = known.retry_count;
        answer.rnr_retry = known.rnr_retry;
        answer.min_rnr_timer = known.rnr_timer;
        answer.rq_psn = known.expected_psn.into();
        answer.sq_psn = core.psn.get().into();
        answer.max_rd_atomic = known.outbound_slots;
        answer.max_dest_rd_atomic = known.inbound_slots;
        answer.sq_size = core.slots.into();
        answer.rq_size = core.receives.as_ref().map_or(0, |receives| receives.entries).into();
        answer.dest_qp_id = known.peer.into();
        answer.src_mac = self.identity.mac;
        beside(&answer)
    }
}
