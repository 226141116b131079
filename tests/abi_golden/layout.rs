//! Sizes, offsets and numbers.

use crate::golden::compare;
use doorbell::mlx5::abi::verbs::ioctl;
use doorbell::mlx5::abi::verbs::qp::QpAttrMask;
use doorbell::mlx5::abi::verbs::{AccessFlags, CoreSupport, method, write};
use doorbell::mlx5::abi::{cqe, doorbell as db, driver, event, uar, verbs, wqe};
use std::mem::{offset_of, size_of, size_of_val};
use zerocopy::FromZeros;

#[test]
fn sizes_offsets_and_numbers_are_those_of_the_c_headers() {
    let mut lines = Vec::new();
    device_structs(&mut lines);
    verbs_structs(&mut lines);
    driver_structs(&mut lines);
    device_numbers(&mut lines);
    verbs_numbers(&mut lines);
    driver_numbers(&mut lines);
    if let Err(differences) = compare(include_str!("../golden/layout.txt"), &lines) {
        panic!("the layouts differ:\n{differences}");
    }
}

/// The lines of a type, under its C name and those of its fields, if they are not ours. `HOST` also
/// states the alignment, as layout.c does.
macro_rules! structure {
    ($lines:ident, HOST $name:literal $type:ty { $($fields:tt)* }) => {
        $lines.push(format!(
            "struct {} size={} align={}", $name, size_of::<$type>(), align_of::<$type>()
        ));
        structure!($lines, $name $type { $($fields)* });
    };
    ($lines:ident, DEVICE $name:literal $type:ty { $($fields:tt)* }) => {
        assert_eq!(align_of::<$type>(), 1, "{}", $name);
        $lines.push(format!("struct {} size={}", $name, size_of::<$type>()));
        structure!($lines, $name $type { $($fields)* });
    };
    ($lines:ident, $name:literal $type:ty { $($field:ident $(= $c_field:literal)?),* $(,)? }) => {
        let value = <$type>::new_zeroed();
        let mut judged = 0;
        $(
            let name = [stringify!($field), $($c_field)?].into_iter().last().unwrap_or_default();
            let (offset, size) = (offset_of!($type, $field), size_of_val(&value.$field));
            judged += size;
            $lines.push(format!("field {}.{name} offset={offset} size={size}", $name));
        )*
        assert_eq!(judged, size_of::<$type>(), "a field of {} is not judged", $name);
    };
}

fn device_structs(lines: &mut Vec<String>) {
    structure!(lines, DEVICE "mlx5_wqe_ctrl_seg" wqe::ControlSegment {
        opmod_idx_opcode, qpn_ds, signature, dci_stream_channel_id, fm_ce_se, imm,
    });
    structure!(lines, DEVICE "mlx5_wqe_raddr_seg" wqe::RemoteAddressSegment {
        raddr, rkey, reserved,
    });
    structure!(lines, DEVICE "mlx5_wqe_atomic_seg" wqe::AtomicSegment {
        swap_add, compare,
    });
    structure!(lines, DEVICE "mlx5_wqe_data_seg" wqe::DataSegment {
        byte_count, lkey, addr,
    });
    structure!(lines, DEVICE "mlx5_cqe64" cqe::Completion {
        reserved0 = "rsvd0", wqe_id, reserved4 = "rsvd4", ml_path, reserved18 = "rsvd20", slid,
        flags_rqpn, hds_ip_ext, l4_hdr_type_etc, vlan_info, srqn_uidx, imm_inval_pkey, app, app_op,
        app_info, byte_cnt, timestamp, sop_drop_qpn, wqe_counter, signature, op_own,
    });
    structure!(lines, DEVICE "mlx5_err_cqe" cqe::ErrorCompletion {
        reserved0 = "rsvd0", srqn, reserved36 = "rsvd1", vendor_err_synd, syndrome,
        s_wqe_opcode_qpn, wqe_counter, signature, op_own,
    });
    lines.push(format!("struct mlx5_wqe_inl_data_seg size={}", size_of::<wqe::InlineHeader>()));
    lines.push(format!(
        "field mlx5_wqe_inl_data_seg.byte_count offset=0 size={}",
        size_of::<wqe::InlineHeader>()
    ));
}

fn verbs_structs(lines: &mut Vec<String>) {
    structure!(lines, HOST "ib_uverbs_comp_event_desc" event::CompEvent {
        cq_handle,
    });
    structure!(lines, HOST "ib_uverbs_async_event_desc" event::AsyncEvent {
        element, event_type, reserved,
    });
    structure!(lines, HOST "ib_uverbs_query_device" verbs::device::QueryDevice {
        response,
    });
    structure!(lines, HOST "ib_uverbs_query_device_resp" verbs::device::QueryDeviceResp {
        fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id,
        hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr,
        max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom,
        max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp,
        max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr,
        max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay,
        phys_port_cnt, reserved,
    });
    structure!(lines, HOST "ib_uverbs_ex_query_device" verbs::device::ExQueryDevice {
        comp_mask, reserved,
    });
    structure!(lines, HOST "ib_uverbs_odp_caps" verbs::device::OdpCaps {
        general_caps, rc_odp_caps = "per_transport_caps.rc_odp_caps",
        uc_odp_caps = "per_transport_caps.uc_odp_caps",
        ud_odp_caps = "per_transport_caps.ud_odp_caps", reserved,
    });
    structure!(lines, HOST "ib_uverbs_rss_caps" verbs::device::RssCaps {
        supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size, reserved,
    });
    structure!(lines, HOST "ib_uverbs_tm_caps" verbs::device::TmCaps {
        max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge, reserved,
    });
    structure!(lines, HOST "ib_uverbs_cq_moderation_caps" verbs::device::CqModerationCaps {
        max_cq_moderation_count, max_cq_moderation_period, reserved,
    });
    structure!(lines, HOST "ib_uverbs_ex_query_device_resp" verbs::device::ExQueryDeviceResp {
        base, comp_mask, response_length, odp_caps, timestamp_mask, hca_core_clock,
        device_cap_flags_ex, rss_caps, max_wq_type_rq, raw_packet_caps, tm_caps, cq_moderation_caps,
        max_dm_size, xrc_odp_caps, reserved,
    });
    structure!(lines, HOST "ib_uverbs_ioctl_hdr" verbs::ioctl::Header {
        length, object_id, method_id, num_attrs, reserved1, driver_id, reserved2,
    });
    structure!(lines, HOST "ib_uverbs_attr" verbs::ioctl::Attribute {
        attr_id, len, flags, attr_data = "attr_data.reserved", data,
    });
    structure!(lines, HOST "ib_uverbs_query_port_resp" verbs::port::QueryPortResp {
        port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr, gid_tbl_len, pkey_tbl_len, lid,
        sm_lid, state, max_mtu, active_mtu, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply,
        active_width, active_speed, phys_state, link_layer, flags, reserved,
    });
    structure!(lines, HOST "ib_uverbs_query_port_resp_ex" verbs::port::QueryPortRespEx {
        legacy_resp, port_cap_flags2, reserved,
    });
    structure!(lines, HOST "ib_uverbs_gid_entry" verbs::port::GidEntry {
        gid, gid_index, port_num, gid_type, netdev_ifindex,
    });
    structure!(lines, HOST "ib_uverbs_qp_cap" verbs::qp::QpCap {
        max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data,
    });
    structure!(lines, HOST "ib_uverbs_create_qp" verbs::qp::CreateQp {
        response, user_handle, pd_handle, send_cq_handle, recv_cq_handle, srq_handle, max_send_wr,
        max_recv_wr, max_send_sge, max_recv_sge, max_inline_data, sq_sig_all, qp_type, is_srq,
        reserved,
    });
    structure!(lines, HOST "ib_uverbs_create_qp_resp" verbs::qp::CreateQpResp {
        qp_handle, qpn, max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data,
        reserved,
    });
    structure!(lines, HOST "ib_uverbs_ex_create_qp" verbs::qp::ExCreateQp {
        user_handle, pd_handle, send_cq_handle, recv_cq_handle, srq_handle, max_send_wr,
        max_recv_wr, max_send_sge, max_recv_sge, max_inline_data, sq_sig_all, qp_type, is_srq,
        reserved, comp_mask, create_flags, rwq_ind_tbl_handle, source_qpn,
    });
    structure!(lines, HOST "ib_uverbs_ex_create_qp_resp" verbs::qp::ExCreateQpResp {
        base, comp_mask, response_length,
    });
    structure!(lines, HOST "ib_uverbs_qp_dest" verbs::qp::QpDest {
        dgid, flow_label, dlid, reserved, sgid_index, hop_limit, traffic_class, sl, src_path_bits,
        static_rate, is_global, port_num,
    });
    structure!(lines, HOST "ib_uverbs_modify_qp" verbs::qp::ModifyQp {
        dest, alt_dest, qp_handle, attr_mask, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags,
        pkey_index, alt_pkey_index, qp_state, cur_qp_state, path_mtu, path_mig_state,
        en_sqd_async_notify, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout,
        retry_cnt, rnr_retry, alt_port_num, alt_timeout, reserved,
    });
    structure!(lines, HOST "ib_uverbs_ex_modify_qp" verbs::qp::ExModifyQp {
        base, rate_limit, reserved,
    });
    structure!(lines, HOST "ib_uverbs_ex_modify_qp_resp" verbs::qp::ExModifyQpResp {
        comp_mask, response_length,
    });
    structure!(lines, HOST "ib_uverbs_query_qp" verbs::qp::QueryQp {
        response, qp_handle, attr_mask,
    });
    structure!(lines, HOST "ib_uverbs_query_qp_resp" verbs::qp::QueryQpResp {
        dest, alt_dest, max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data, qkey,
        rq_psn, sq_psn, dest_qp_num, qp_access_flags, pkey_index, alt_pkey_index, qp_state,
        cur_qp_state, path_mtu, path_mig_state, sq_draining, max_rd_atomic, max_dest_rd_atomic,
        min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout,
        sq_sig_all, reserved,
    });
    structure!(lines, HOST "ib_uverbs_destroy_qp" verbs::qp::DestroyQp {
        response, qp_handle, reserved,
    });
    structure!(lines, HOST "ib_uverbs_destroy_qp_resp" verbs::qp::DestroyQpResp {
        events_reported,
    });
    structure!(lines, HOST "ib_uverbs_alloc_pd" verbs::write::AllocPd {
        response,
    });
    structure!(lines, HOST "ib_uverbs_alloc_pd_resp" verbs::write::AllocPdResp {
        pd_handle,
    });
    structure!(lines, HOST "ib_uverbs_dealloc_pd" verbs::write::DeallocPd {
        pd_handle,
    });
    structure!(lines, HOST "ib_uverbs_reg_mr" verbs::write::RegMr {
        response, start, length, hca_va, pd_handle, access_flags,
    });
    structure!(lines, HOST "ib_uverbs_reg_mr_resp" verbs::write::RegMrResp {
        mr_handle, lkey, rkey,
    });
    structure!(lines, HOST "ib_uverbs_dereg_mr" verbs::write::DeregMr {
        mr_handle,
    });
    structure!(lines, HOST "ib_uverbs_create_comp_channel" verbs::write::CreateCompChannel {
        response,
    });
    structure!(lines, HOST "ib_uverbs_create_comp_channel_resp" verbs::write::CreateCompChannelResp {
        fd,
    });
    structure!(lines, HOST "ib_uverbs_create_cq" verbs::write::CreateCq {
        response, user_handle, cqe, comp_vector, comp_channel, reserved,
    });
    structure!(lines, HOST "ib_uverbs_create_cq_resp" verbs::write::CreateCqResp {
        cq_handle, cqe,
    });
    structure!(lines, HOST "ib_uverbs_ex_create_cq" verbs::write::ExCreateCq {
        user_handle, cqe, comp_vector, comp_channel, comp_mask, flags, reserved,
    });
    structure!(lines, HOST "ib_uverbs_ex_create_cq_resp" verbs::write::ExCreateCqResp {
        base, comp_mask, response_length,
    });
    structure!(lines, HOST "ib_uverbs_destroy_cq" verbs::write::DestroyCq {
        response, cq_handle, reserved,
    });
    structure!(lines, HOST "ib_uverbs_destroy_cq_resp" verbs::write::DestroyCqResp {
        comp_events_reported, async_events_reported,
    });
}

fn driver_structs(lines: &mut Vec<String>) {
    structure!(lines, HOST "mlx5_ib_tso_caps" driver::device::TsoCaps {
        max_tso, supported_qpts,
    });
    structure!(lines, HOST "mlx5_ib_rss_caps" driver::device::RssHashCaps {
        rx_hash_fields_mask, rx_hash_function, reserved,
    });
    structure!(lines, HOST "mlx5_ib_cqe_comp_caps" driver::device::CqeCompCaps {
        max_num, supported_format,
    });
    structure!(lines, HOST "mlx5_packet_pacing_caps" driver::device::PacketPacingCaps {
        qp_rate_limit_min, qp_rate_limit_max, supported_qpts, cap_flags, reserved,
    });
    structure!(lines, HOST "mlx5_ib_sw_parsing_caps" driver::device::SwParsingCaps {
        sw_parsing_offloads, supported_qpts,
    });
    structure!(lines, HOST "mlx5_ib_striding_rq_caps" driver::device::StridingRqCaps {
        min_single_stride_log_num_of_bytes, max_single_stride_log_num_of_bytes,
        min_single_wqe_log_num_of_strides, max_single_wqe_log_num_of_strides, supported_qpts,
        reserved,
    });
    structure!(lines, HOST "mlx5_ib_dci_streams_caps" driver::device::DciStreamsCaps {
        max_log_num_concurent, max_log_num_errored,
    });
    structure!(lines, HOST "mlx5_ib_query_device_resp" driver::device::QueryDeviceResp {
        comp_mask, response_length, tso_caps, rss_caps, cqe_comp_caps, packet_pacing_caps,
        mlx5_ib_support_multi_pkt_send_wqes, flags, sw_parsing_caps, striding_rq_caps,
        tunnel_offloads_caps, dci_streams_caps, reserved,
    });
    structure!(lines, HOST "mlx5_ib_alloc_ucontext_req_v2" driver::AllocUcontextReqV2 {
        total_num_bfregs, num_low_latency_bfregs, flags, comp_mask, max_cqe_version, reserved0,
        reserved1, reserved2, lib_caps,
    });
    structure!(lines, HOST "mlx5_ib_alloc_ucontext_resp" driver::AllocUcontextResp {
        qp_tab_size, bf_reg_size, tot_bfregs, cache_line_size, max_sq_desc_sz, max_rq_desc_sz,
        max_send_wqebb, max_recv_wr, max_srq_recv_wr, num_ports, flow_action_flags, comp_mask,
        response_length, cqe_version, cmds_supp_uhw, eth_min_inline, clock_info_versions,
        hca_core_clock_offset, log_uar_size, num_uars_per_page, num_dyn_bfregs, dump_fill_mkey,
    });
    structure!(lines, HOST "mlx5_ib_alloc_pd_resp" driver::AllocPdResp {
        pdn,
    });
    structure!(lines, HOST "mlx5_ib_create_cq" driver::CreateCq {
        buf_addr, db_addr, cqe_size, cqe_comp_en, cqe_comp_res_format, flags, uar_page_index,
        reserved0, reserved1,
    });
    structure!(lines, HOST "mlx5_ib_create_cq_resp" driver::CreateCqResp {
        cqn, reserved,
    });
    structure!(lines, HOST "mlx5_ib_create_qp_dci_streams" driver::DciStreams {
        log_num_concurent, log_num_errored,
    });
    structure!(lines, HOST "mlx5_ib_create_qp" driver::CreateQp {
        buf_addr, db_addr, sq_wqe_count, rq_wqe_count, rq_wqe_shift, flags, uidx, bfreg_index,
        sq_buf_addr, ece_options, dci_streams, reserved,
    });
    structure!(lines, HOST "mlx5_ib_create_qp_resp" driver::CreateQpResp {
        bfreg_index, ece_options, comp_mask, tirn, tisn, rqn, sqn, reserved1, tir_icm_addr,
    });
    structure!(lines, HOST "mlx5_ib_burst_info" driver::BurstInfo {
        max_burst_sz, typical_pkt_sz, reserved,
    });
    structure!(lines, HOST "mlx5_ib_modify_qp" driver::ModifyQp {
        comp_mask, burst_info, ece_options,
    });
    structure!(lines, HOST "mlx5_ib_modify_qp_resp" driver::ModifyQpResp {
        response_length, dctn, ece_options, reserved,
    });
}

fn number(lines: &mut Vec<String>, symbol: &str, value: impl Into<u64>) {
    lines.push(format!("number {symbol}={:#x}", value.into()));
}

/// The lines of a type or module that lists its `SYMBOLS`.
macro_rules! symbols {
    ($lines:ident, $($list:path),* $(,)?) => {
        $(for &(value, symbol) in $list { number($lines, symbol, value.number()); })*
    };
}

/// What a symbol's value says in the header.
trait Number {
    fn number(self) -> u64;
}

macro_rules! codes {
    ($($type:ty),* $(,)?) => {
        $(impl Number for $type {
            fn number(self) -> u64 {
                let code = self.code();
                // Both ways, so that decoding is judged too.
                assert_eq!(<$type>::try_from(code), Ok(self));
                code.into()
            }
        })*
    };
}

codes!(
    wqe::Opcode,
    cqe::CompletionOpcode,
    cqe::Syndrome,
    event::AsyncEventType,
    verbs::device::AtomicCap,
    verbs::port::GidType,
    verbs::port::LinkLayer,
    verbs::port::Mtu,
    verbs::port::PortState,
    verbs::qp::QpState,
    verbs::qp::QpType,
    driver::UarAllocType,
);

impl Number for u16 {
    fn number(self) -> u64 {
        self.into()
    }
}

impl Number for method::Method {
    fn number(self) -> u64 {
        self.method.into()
    }
}

fn device_numbers(lines: &mut Vec<String>) {
    symbols!(lines, wqe::Opcode::SYMBOLS, cqe::CompletionOpcode::SYMBOLS, cqe::Syndrome::SYMBOLS,);
    number(lines, "MLX5_SEND_WQE_BB", wqe::SLOT_BYTES as u64);
    number(lines, "MLX5_INVALID_LKEY", wqe::DataSegment::INVALID_LKEY);
    number(lines, "MLX5_INLINE_SEG", wqe::InlineHeader::FLAG);
    let flags = wqe::ControlFlags::from_bits(0);
    let always = flags.with_completion(wqe::CompletionMode::Always);
    number(lines, "MLX5_WQE_CTRL_CQ_UPDATE", always.into_bits());
    number(lines, "MLX5_WQE_CTRL_SOLICITED", flags.with_solicited(true).into_bits());
    let fence = flags.with_fence(wqe::FenceMode::SmallAndFence);
    number(lines, "MLX5_WQE_CTRL_FENCE", fence.into_bits());
    let fence = flags.with_fence(wqe::FenceMode::InitiatorSmall);
    number(lines, "MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE", fence.into_bits());
    let owner = cqe::OpcodeOwner::from_bits(0);
    number(lines, "MLX5_CQE_OWNER_MASK", owner.with_owner(true).into_bits());
    let inline32 = owner.with_format(cqe::CompletionFormat::Inline32);
    number(lines, "MLX5_INLINE_SCATTER_32", inline32.into_bits());
    let inline64 = owner.with_format(cqe::CompletionFormat::Inline64);
    number(lines, "MLX5_INLINE_SCATTER_64", inline64.into_bits());
    let word = size_of::<u32>();
    number(lines, "MLX5_RCV_DBR", (offset_of!(db::QueuePairRecord, receive) / word) as u64);
    number(lines, "MLX5_SND_DBR", (offset_of!(db::QueuePairRecord, send) / word) as u64);
    number(lines, "MLX5_CQ_DOORBELL", uar::CQ_ARM_OFFSET as u64);
    let arm = db::ArmWord::new();
    number(lines, "MLX5_CQ_DB_REQ_NOT", arm.into_bits());
    number(lines, "MLX5_CQ_DB_REQ_NOT_SOL", arm.with_solicited_only(true).into_bits());
}

fn verbs_numbers(lines: &mut Vec<String>) {
    number(lines, "RDMA_VERBS_IOCTL", ioctl::RDMA_VERBS_IOCTL);
    number(lines, "RDMA_DRIVER_MLX5", ioctl::DRIVER_MLX5);
    number(lines, "UVERBS_ATTR_F_MANDATORY", ioctl::MANDATORY);
    number(lines, "UVERBS_ATTR_F_VALID_OUTPUT", ioctl::VALID_OUTPUT);
    number(lines, "UVERBS_ID_NS_SHIFT", method::DRIVER_NAMESPACE.trailing_zeros());
    number(lines, "UVERBS_ATTR_UHW_IN", method::UHW_IN);
    number(lines, "UVERBS_ATTR_UHW_OUT", method::UHW_OUT);
    symbols!(
        lines,
        method::object::SYMBOLS,
        method::device::SYMBOLS,
        method::pd::SYMBOLS,
        method::cq::SYMBOLS,
        method::qp::SYMBOLS,
        method::mr::SYMBOLS,
        method::async_event::SYMBOLS,
        method::invoke_write::SYMBOLS,
        method::query_port::SYMBOLS,
        method::get_context::SYMBOLS,
        method::query_gid_table::SYMBOLS,
        method::query_gid_entry::SYMBOLS,
        method::destroy_pd::SYMBOLS,
        method::create_cq::SYMBOLS,
        method::destroy_cq::SYMBOLS,
        method::create_qp::SYMBOLS,
        method::destroy_qp::SYMBOLS,
        method::destroy_mr::SYMBOLS,
        method::query_mr::SYMBOLS,
        method::reg_dmabuf_mr::SYMBOLS,
        method::async_event_alloc::SYMBOLS,
        event::AsyncEventType::SYMBOLS,
        verbs::device::AtomicCap::SYMBOLS,
        verbs::port::GidType::SYMBOLS,
        verbs::port::LinkLayer::SYMBOLS,
        verbs::port::Mtu::SYMBOLS,
        verbs::port::PortState::SYMBOLS,
        verbs::qp::QpState::SYMBOLS,
        verbs::qp::QpType::SYMBOLS,
    );
    // The header has the flag apart from the extended commands' numbers.
    let extended = 0x8000_0000;
    number(lines, "IB_USER_VERBS_CMD_FLAG_EXTENDED", extended);
    for &(command, symbol) in write::WriteCommand::SYMBOLS {
        assert_eq!(write::WriteCommand::try_from(command.code()), Ok(command));
        assert_eq!(command.code() & extended != 0, symbol.contains("_EX_"), "{symbol}");
        number(lines, symbol, command.code() & !extended);
    }
    let access = AccessFlags::new();
    number(lines, "IB_UVERBS_ACCESS_LOCAL_WRITE", access.with_local_write(true).into_bits());
    number(lines, "IB_UVERBS_ACCESS_REMOTE_WRITE", access.with_remote_write(true).into_bits());
    number(lines, "IB_UVERBS_ACCESS_REMOTE_READ", access.with_remote_read(true).into_bits());
    number(lines, "IB_UVERBS_ACCESS_REMOTE_ATOMIC", access.with_remote_atomic(true).into_bits());
    number(lines, "IB_UVERBS_ACCESS_MW_BIND", access.with_mw_bind(true).into_bits());
    number(lines, "IB_UVERBS_ACCESS_ZERO_BASED", access.with_zero_based(true).into_bits());
    number(lines, "IB_UVERBS_ACCESS_ON_DEMAND", access.with_on_demand(true).into_bits());
    number(lines, "IB_UVERBS_ACCESS_HUGETLB", access.with_hugetlb(true).into_bits());
    number(
        lines,
        "IB_UVERBS_ACCESS_RELAXED_ORDERING",
        access.with_relaxed_ordering(true).into_bits(),
    );
    let core = CoreSupport::new();
    number(
        lines,
        "IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS",
        core.with_optional_mr_access(true).into_bits(),
    );
    let mask = QpAttrMask::new();
    number(lines, "IBV_QP_STATE", mask.with_state(true).into_bits());
    number(lines, "IBV_QP_CUR_STATE", mask.with_cur_state(true).into_bits());
    number(lines, "IBV_QP_EN_SQD_ASYNC_NOTIFY", mask.with_en_sqd_async_notify(true).into_bits());
    number(lines, "IBV_QP_ACCESS_FLAGS", mask.with_access_flags(true).into_bits());
    number(lines, "IBV_QP_PKEY_INDEX", mask.with_pkey_index(true).into_bits());
    number(lines, "IBV_QP_PORT", mask.with_port(true).into_bits());
    number(lines, "IBV_QP_QKEY", mask.with_qkey(true).into_bits());
    number(lines, "IBV_QP_AV", mask.with_av(true).into_bits());
    number(lines, "IBV_QP_PATH_MTU", mask.with_path_mtu(true).into_bits());
    number(lines, "IBV_QP_TIMEOUT", mask.with_timeout(true).into_bits());
    number(lines, "IBV_QP_RETRY_CNT", mask.with_retry_cnt(true).into_bits());
    number(lines, "IBV_QP_RNR_RETRY", mask.with_rnr_retry(true).into_bits());
    number(lines, "IBV_QP_RQ_PSN", mask.with_rq_psn(true).into_bits());
    number(lines, "IBV_QP_MAX_QP_RD_ATOMIC", mask.with_max_rd_atomic(true).into_bits());
    number(lines, "IBV_QP_ALT_PATH", mask.with_alt_path(true).into_bits());
    number(lines, "IBV_QP_MIN_RNR_TIMER", mask.with_min_rnr_timer(true).into_bits());
    number(lines, "IBV_QP_SQ_PSN", mask.with_sq_psn(true).into_bits());
    number(lines, "IBV_QP_MAX_DEST_RD_ATOMIC", mask.with_max_dest_rd_atomic(true).into_bits());
    number(lines, "IBV_QP_PATH_MIG_STATE", mask.with_path_mig_state(true).into_bits());
    number(lines, "IBV_QP_CAP", mask.with_cap(true).into_bits());
    number(lines, "IBV_QP_DEST_QPN", mask.with_dest_qpn(true).into_bits());
}

fn driver_numbers(lines: &mut Vec<String>) {
    symbols!(
        lines,
        driver::object::SYMBOLS,
        driver::uar::SYMBOLS,
        driver::uar_alloc::SYMBOLS,
        driver::uar_destroy::SYMBOLS,
        driver::UarAllocType::SYMBOLS,
    );
    let caps = driver::LibCaps::new();
    number(lines, "MLX5_LIB_CAP_4K_UAR", caps.with_uar_4k(true).into_bits());
    number(lines, "MLX5_LIB_CAP_DYN_UAR", caps.with_dyn_uar(true).into_bits());
    let context = driver::AllocUcontextFlags::new();
    number(lines, "MLX5_IB_ALLOC_UCTX_DEVX", context.with_devx(true).into_bits());
    let cq = driver::CreateCqFlags::new();
    number(lines, "MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD", cq.with_cqe_128b_pad(true).into_bits());
    number(
        lines,
        "MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX",
        cq.with_uar_page_index(true).into_bits(),
    );
    number(lines, "MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS", cq.with_real_time_ts(true).into_bits());
    let qp = driver::CreateQpFlags::new();
    number(lines, "MLX5_QP_FLAG_SIGNATURE", qp.with_signature(true).into_bits());
    number(lines, "MLX5_QP_FLAG_SCATTER_CQE", qp.with_scatter_cqe(true).into_bits());
    number(lines, "MLX5_QP_FLAG_TUNNEL_OFFLOADS", qp.with_tunnel_offloads(true).into_bits());
    number(lines, "MLX5_QP_FLAG_BFREG_INDEX", qp.with_bfreg_index(true).into_bits());
    number(lines, "MLX5_QP_FLAG_TYPE_DCT", qp.with_type_dct(true).into_bits());
    number(lines, "MLX5_QP_FLAG_TYPE_DCI", qp.with_type_dci(true).into_bits());
    number(
        lines,
        "MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC",
        qp.with_tir_allow_self_lb_uc(true).into_bits(),
    );
    number(
        lines,
        "MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC",
        qp.with_tir_allow_self_lb_mc(true).into_bits(),
    );
    number(lines, "MLX5_QP_FLAG_ALLOW_SCATTER_CQE", qp.with_allow_scatter_cqe(true).into_bits());
    number(
        lines,
        "MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE",
        qp.with_packet_based_credit_mode(true).into_bits(),
    );
    number(lines, "MLX5_QP_FLAG_UAR_PAGE_INDEX", qp.with_uar_page_index(true).into_bits());
    number(lines, "MLX5_QP_FLAG_DCI_STREAM", qp.with_dci_stream(true).into_bits());
}
