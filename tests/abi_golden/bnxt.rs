//! Sizes, offsets and numbers of the BCM57608.

use crate::golden::compare;
use doorbell::bnxt::abi::cqe::{self, KindToggle, ReceiveFlags};
use doorbell::bnxt::abi::doorbell::{DoorbellFields, DoorbellKind};
use doorbell::bnxt::abi::field::{
    CompletionPages, DeviceFlags, DeviceFlags2, ModifyMask, NetworkKind, PathMtuByte, QueuePages,
    QueuePairAccess, QueuePairFlags, QueuePairKind, QueuePairState, RegionAccess, RegionPages,
    RetransmissionTable, StateByte,
};
use doorbell::bnxt::abi::notification::{KindWord, NotificationKind};
use doorbell::bnxt::abi::page::PageEntry;
use doorbell::bnxt::abi::wqe::{EntryFlags, MessageSearch};
use doorbell::bnxt::abi::{CStructure, answer, command, event, notification, opcode, wqe};
use zerocopy::IntoBytes;

#[test]
fn sizes_offsets_and_numbers_of_the_bcm57608_are_those_of_linux() {
    let mut lines = Vec::new();
    for structures in [
        command::STRUCTURES,
        answer::STRUCTURES,
        event::STRUCTURES,
        wqe::STRUCTURES,
        cqe::STRUCTURES,
        notification::STRUCTURES,
    ] {
        structures.iter().for_each(|structure| self::structure(&mut lines, structure));
    }
    codes(&mut lines);
    bits(&mut lines);
    if let Err(differences) = compare(include_str!("../golden/bnxt.txt"), &lines) {
        panic!("the layouts differ:\n{differences}");
    }
}

fn structure(lines: &mut Vec<String>, CStructure { name, size, fields }: &CStructure) {
    lines.push(format!("struct {name} size={size}"));
    // A command's header is a structure of its own to us, and repeated fields to C.
    for (field, offset, size) in fields.iter().filter(|(field, ..)| *field != "header") {
        lines.push(format!("field {name}.{field} offset={offset} size={size}"));
    }
}

/// The number of a symbol.
fn number(lines: &mut Vec<String>, symbol: &str, value: impl Into<u64>) {
    // What only rdma-core names is not in these headers.
    if !symbol.starts_with("BNXT_RE_") {
        lines.push(format!("number {symbol}={:#x}", value.into()));
    }
}

fn codes(lines: &mut Vec<String>) {
    macro_rules! codes {
        ($($type:ty),*) => {
            $(for (code, symbol) in <$type>::SYMBOLS { number(lines, symbol, code.code()); })*
        };
    }
    codes!(
        opcode::Opcode,
        event::EventKind,
        event::CommandStatus,
        wqe::Opcode,
        cqe::RequestStatus,
        cqe::ReceiveStatus,
        NotificationKind,
        QueuePairKind,
        QueuePairState,
        NetworkKind
    );
    // These stand in the header as they stand in their fields.
    for (code, symbol) in cqe::CompletionKind::SYMBOLS {
        number(lines, symbol, KindToggle::of(*code, false).into_bits());
    }
    for (code, symbol) in DoorbellKind::SYMBOLS {
        number(lines, symbol, DoorbellFields::new().with_kind(code.code()).into_bits() >> 32);
    }
    for (code, symbol) in RetransmissionTable::SYMBOLS {
        let flags = DeviceFlags2::new().with_req_retransmission_support(code.code());
        number(lines, symbol, value(&flags));
    }
}

/// A field of at most 8 bytes as a little-endian number.
fn value(field: &(impl IntoBytes + zerocopy::Immutable)) -> u64 {
    let mut bytes = [0; 8];
    bytes[..field.as_bytes().len()].copy_from_slice(field.as_bytes());
    u64::from_le_bytes(bytes)
}

fn bits(lines: &mut Vec<String>) {
    macro_rules! bits {
        ($($symbol:literal = $value:expr;)*) => { $(number(lines, $symbol, value(&$value));)* };
    }
    let (flags, receive) = (EntryFlags::new, ReceiveFlags::new);
    let (region, pair, mask) = (RegionAccess::new, QueuePairAccess::new, ModifyMask::new);
    let (pair_flags, upper) =
        (QueuePairFlags::new, |fields: DoorbellFields| fields.into_bits() >> 32);
    bits! {
        "SQ_SEND_FLAGS_SIGNAL_COMP" = flags().with_signal_completion(true);
        "SQ_SEND_FLAGS_RD_OR_ATOMIC_FENCE" = flags().with_read_or_atomic_fence(true);
        "SQ_SEND_FLAGS_UC_FENCE" = flags().with_unconditional_fence(true);
        "SQ_SEND_FLAGS_SE" = flags().with_solicited_event(true);
        "SQ_SEND_FLAGS_INLINE" = flags().with_inline(true);
        "RQ_WQE_WQE_TYPE_RCV" = wqe::RECEIVE;
        "CQ_BASE_TOGGLE" = KindToggle::new().with_toggle(true);
        "CQ_RES_RC_FLAGS_IMM" = receive().with_immediate(true);
        "CQ_RES_RC_FLAGS_INV" = receive().with_invalidate(true);
        "CQ_RES_RC_FLAGS_RDMA" = receive().with_rdma(true);
        "NQ_CN_TOGGLE_MASK" = KindWord::new().with_toggle(3);
        "NQ_CN_V" = 1u8;
        "CREQ_BASE_V" = 1u8;
        "CREQ_QP_EVENT_EVENT_QP_ERROR_NOTIFICATION" = event::QUEUE_PAIR_ERROR;
        "CREQ_QP_EVENT_EVENT_CQ_ERROR_NOTIFICATION" = event::COMPLETION_QUEUE_ERROR;
        "CMDQ_REGISTER_MR_ACCESS_LOCAL_WRITE" = region().with_local_write(true);
        "CMDQ_REGISTER_MR_ACCESS_REMOTE_READ" = region().with_remote_read(true);
        "CMDQ_REGISTER_MR_ACCESS_REMOTE_WRITE" = region().with_remote_write(true);
        "CMDQ_REGISTER_MR_ACCESS_REMOTE_ATOMIC" = region().with_remote_atomic(true);
        "CMDQ_MODIFY_QP_ACCESS_LOCAL_WRITE" = pair().with_local_write(true);
        "CMDQ_MODIFY_QP_ACCESS_REMOTE_WRITE" = pair().with_remote_write(true);
        "CMDQ_MODIFY_QP_ACCESS_REMOTE_READ" = pair().with_remote_read(true);
        "CMDQ_MODIFY_QP_ACCESS_REMOTE_ATOMIC" = pair().with_remote_atomic(true);
        "CMDQ_REGISTER_MR_LVL_LVL_2" = RegionPages::new().with_levels(2);
        "CMDQ_REGISTER_MR_LOG2_PG_SIZE_PG_2M" = RegionPages::new().with_log2_page_size(21);
        "CMDQ_CREATE_CQ_LVL_LVL_2" = CompletionPages::new().with_levels(2);
        "CMDQ_CREATE_CQ_PG_SIZE_PG_1G" = CompletionPages::new().with_page_size(5);
        "CMDQ_CREATE_QP_SQ_LVL_LVL_2" = QueuePages::new().with_levels(2);
        "CMDQ_CREATE_QP_SQ_PG_SIZE_PG_1G" = QueuePages::new().with_page_size(5);
        "CMDQ_CREATE_QP_QP_FLAGS_SRQ_USED" = pair_flags().with_srq_used(true);
        "CMDQ_CREATE_QP_QP_FLAGS_FORCE_COMPLETION" = pair_flags().with_force_completion(true);
        "CMDQ_CREATE_QP_QP_FLAGS_RESERVED_LKEY_ENABLE" =
            pair_flags().with_reserved_lkey_enable(true);
        "CMDQ_CREATE_QP_QP_FLAGS_VARIABLE_SIZED_WQE_ENABLED" =
            pair_flags().with_variable_sized_wqe_enabled(true);
        "CMDQ_CREATE_QP_QP_FLAGS_EXT_STATS_ENABLED" = pair_flags().with_ext_stats_enabled(true);
        "CMDQ_MODIFY_QP_NETWORK_TYPE_ROCEV2_IPV4" =
            StateByte::of(QueuePairState::Reset, NetworkKind::RoceV2Ipv4);
        "CMDQ_MODIFY_QP_PATH_MTU_MTU_4096" = PathMtuByte::new().with_mtu(4);
        "CMDQ_MODIFY_QP_MODIFY_MASK_STATE" = mask().with_state(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_ACCESS" = mask().with_access(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_PKEY" = mask().with_pkey(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_DGID" = mask().with_dgid(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_FLOW_LABEL" = mask().with_flow_label(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_SGID_INDEX" = mask().with_sgid_index(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_HOP_LIMIT" = mask().with_hop_limit(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_TRAFFIC_CLASS" = mask().with_traffic_class(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_DEST_MAC" = mask().with_dest_mac(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_PATH_MTU" = mask().with_path_mtu(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_TIMEOUT" = mask().with_timeout(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_RETRY_CNT" = mask().with_retry_cnt(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_RNR_RETRY" = mask().with_rnr_retry(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_RQ_PSN" = mask().with_rq_psn(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_MAX_RD_ATOMIC" = mask().with_max_rd_atomic(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_MIN_RNR_TIMER" = mask().with_min_rnr_timer(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_SQ_PSN" = mask().with_sq_psn(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_MAX_DEST_RD_ATOMIC" = mask().with_max_dest_rd_atomic(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_DEST_QP_ID" = mask().with_dest_qp_id(true);
        "CMDQ_MODIFY_QP_MODIFY_MASK_VLAN_ID" = mask().with_vlan_id(true);
        "CREQ_QUERY_FUNC_RESP_SB_MR_REGISTER_ALLOC" =
            DeviceFlags::new().with_mr_register_alloc(true);
        "CREQ_QUERY_FUNC_RESP_SB_HW_REQUESTER_RETX_ENABLED" =
            DeviceFlags::new().with_hw_requester_retx_enabled(true);
        "CREQ_QUERY_FUNC_RESP_SB_HW_RESPONDER_RETX_ENABLED" =
            DeviceFlags::new().with_hw_responder_retx_enabled(true);
        "SQ_MSN_SEARCH_START_PSN_MASK" = MessageSearch::new().with_start_psn(0xff_ffff);
        "SQ_MSN_SEARCH_NEXT_PSN_MASK" = MessageSearch::new().with_next_psn(0xff_ffff);
        "SQ_MSN_SEARCH_START_IDX_MASK" = MessageSearch::new().with_start_idx(0xffff);
        "PTU_PTE_VALID" = PageEntry::new().with_valid(true);
        "PTU_PTE_LAST" = PageEntry::new().with_last(true);
        "PTU_PTE_NEXT_TO_LAST" = PageEntry::new().with_next_to_last(true);
        "DBC_DBC_INDEX_MASK" = DoorbellFields::new().with_index(0xff_ffff);
        "DBC_DBC_EPOCH" = DoorbellFields::new().with_epoch(true);
        "DBC_DBC_TOGGLE_MASK" = DoorbellFields::new().with_toggle(3);
        "DBC_DBC_XID_MASK" = upper(DoorbellFields::new().with_xid(0xf_ffff));
        "DBC_DBC_PATH_L2" = upper(DoorbellFields::new().with_path(1));
        "DBC_DBC_VALID" = upper(DoorbellFields::new().with_valid(true));
    }
}
