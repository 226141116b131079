//! Bytes: each line of `encode.txt` is encoded from its values and compared, and its bytes are
//! decoded and compared with its values.

use crate::golden::Case;
use doorbell::mlx5::abi::verbs::ioctl::{Attribute, Header};
use doorbell::mlx5::abi::verbs::method::{self, Method};
use doorbell::mlx5::abi::verbs::port::{GidEntry, GidType, Mtu};
use doorbell::mlx5::abi::verbs::qp::{ModifyQp, QpAttrMask, QpDest, QpState};
use doorbell::mlx5::abi::verbs::{AccessFlags, write};
use doorbell::mlx5::abi::{U24, cqe, doorbell as db, driver, event, wqe};
use std::collections::BTreeSet;
use std::fmt::Debug;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[test]
fn bytes_are_those_that_the_c_structs_and_helpers_encode() {
    let mut kinds = BTreeSet::new();
    for line in include_str!("../golden/encode.txt").lines() {
        let case = Case::parse(line).unwrap_or_else(|error| panic!("{error}"));
        kinds.insert(case.kind);
        check(&case);
    }
    // A kind that vanished from the file is noticed: 33, and a header for each of 16 methods.
    assert_eq!(kinds.len(), 33 + 16, "{kinds:?}");
}

#[test]
fn a_wrong_bit_is_noticed_in_every_kind_of_line() {
    let mut kinds = BTreeSet::new();
    for line in include_str!("../golden/encode.txt").lines() {
        let mut case = Case::parse(line).unwrap_or_else(|error| panic!("{error}"));
        if kinds.insert(case.kind) {
            let middle = case.bytes.len() / 2;
            case.bytes[middle] ^= 0x10;
            assert!(std::panic::catch_unwind(|| check(&case)).is_err(), "{line}");
        }
    }
}

fn check(case: &Case) {
    match case.kind {
        "control" => control(case),
        "control_flags" => control_flags(case),
        "send_doorbell" => send_doorbell(case),
        "data" => data(case),
        "terminator" => both_ways(case, wqe::DataSegment::TERMINATOR),
        "remote" => {
            both_ways(case, wqe::RemoteAddressSegment::new(case.get("raddr"), case.get("rkey")));
        }
        "atomic" => atomic(case),
        "inline" => both_ways(case, wqe::InlineHeader::of(case.get("length"))),
        "entry" => assert_eq!(entry(case), case.bytes, "{}", case.line),
        "receive" => assert_eq!(receive(case), case.bytes, "{}", case.line),
        "op_own" => op_own(case),
        "completion" => both_ways(case, completion(case)),
        "completion128" => completion128(case),
        "error_completion" => error_completion(case),
        "qp_record" => both_ways(
            case,
            db::QueuePairRecord {
                receive: db::CounterWord::of(case.get("receive")),
                send: db::CounterWord::of(case.get("send")),
            },
        ),
        "cq_record" => both_ways(
            case,
            db::CompletionQueueRecord {
                consumer: db::ConsumerWord::of(u24(case, "consumer")),
                arm: arm(case),
            },
        ),
        "arm_doorbell" => arm_doorbell(case),
        "async_event" => async_event(case),
        "comp_event" => both_ways(case, event::CompEvent { cq_handle: case.get("cq") }),
        kind if kind.starts_with("header_") => header(case),
        kind if kind.starts_with("attr_") => attribute(case),
        _ => command(case),
    }
}

/// `value` encodes to the case's bytes, and they decode to it.
#[track_caller]
fn both_ways<T>(case: &Case, value: T)
where
    T: FromBytes + IntoBytes + Immutable + KnownLayout + PartialEq + Debug,
{
    assert_eq!(value.as_bytes(), case.bytes, "{}", case.line);
    assert_eq!(T::read_from_bytes(&case.bytes).as_ref(), Ok(&value), "{}", case.line);
}

fn u24(case: &Case, key: &str) -> U24 {
    U24::new(case.get(key)).unwrap_or_else(|| panic!("{key} is no 24-bit number in {}", case.line))
}

fn control(case: &Case) {
    let segment = wqe::ControlSegment {
        opmod_idx_opcode: wqe::OpcodeWord::new()
            .with_opcode(case.get("opcode"))
            .with_index(case.get("index"))
            .with_modifier(case.get("opmod")),
        qpn_ds: wqe::EntrySize::new()
            .with_queue_pair(u24(case, "qpn"))
            .with_segments(case.get("ds")),
        signature: case.get("signature"),
        dci_stream_channel_id: 0.into(),
        fm_ce_se: wqe::ControlFlags::from_bits(case.get("fm_ce_se")),
        imm: case.get::<u32>("imm").into(),
    };
    both_ways(case, segment);
    assert_eq!(segment.opmod_idx_opcode.index(), case.get::<u16>("index"));
    assert_eq!(segment.qpn_ds.queue_pair(), u24(case, "qpn"));
    assert_eq!(segment.qpn_ds.segments(), case.get::<u8>("ds"));

    // The words that a poster stores are the same bytes.
    assert_eq!(segment.to_words().as_bytes(), case.bytes);
    assert_eq!(wqe::ControlSegment::from_words(segment.to_words()), segment);
    assert_eq!(segment.doorbell().as_bytes(), &case.bytes[..8]);

    if let (Ok(opcode), 0, 0) =
        (segment.opcode(), case.get::<u8>("opmod"), case.get::<u8>("signature"))
    {
        let flags = segment.fm_ce_se;
        let made = wqe::ControlSegment::new(
            opcode,
            case.get("index"),
            u24(case, "qpn"),
            case.get("ds"),
            flags,
            case.get("imm"),
        );
        assert_eq!(made, segment, "{}", case.line);
    }
}

fn control_flags(case: &Case) {
    let flags = flags(
        case.flag("signaled"),
        case.flag("solicited"),
        match (case.flag("fence"), case.flag("small_fence")) {
            (false, false) => wqe::FenceMode::None,
            (false, true) => wqe::FenceMode::InitiatorSmall,
            (true, _) => wqe::FenceMode::SmallAndFence,
        },
    );
    both_ways(case, flags);
}

fn flags(signaled: bool, solicited: bool, fence: wqe::FenceMode) -> wqe::ControlFlags {
    let completion =
        if signaled { wqe::CompletionMode::Always } else { wqe::CompletionMode::OnError };
    wqe::ControlFlags::new().with_completion(completion).with_solicited(solicited).with_fence(fence)
}

fn send_doorbell(case: &Case) {
    let doorbell = db::SendDoorbell {
        opmod_idx_opcode: wqe::OpcodeWord::new()
            .with_opcode(case.get("opcode"))
            .with_index(case.get("index"))
            .with_modifier(case.get("opmod")),
        qpn_ds: wqe::EntrySize::new()
            .with_queue_pair(u24(case, "qpn"))
            .with_segments(case.get("ds")),
    };
    both_ways(case, doorbell);
    assert_eq!(doorbell.to_memory().as_bytes(), case.bytes);
    assert_eq!(db::SendDoorbell::from_memory(doorbell.to_memory()), doorbell);
}

fn data(case: &Case) {
    let segment = wqe::DataSegment::new(case.get("addr"), case.get("lkey"), case.get("length"));
    both_ways(case, segment);
    assert_eq!(segment.length(), case.get::<u32>("length"));
    assert!(!segment.is_inline());
    assert_eq!(segment.to_words().as_bytes(), case.bytes);
}

fn atomic(case: &Case) {
    let (swap_add, compare) = (case.get("swap_add"), case.get("compare"));
    both_ways(case, wqe::AtomicSegment::compare_swap(compare, swap_add));
    if compare == 0 {
        both_ways(case, wqe::AtomicSegment::fetch_add(swap_add));
    }
}

/// A whole send entry from its values.
fn entry(case: &Case) -> Vec<u8> {
    let opcode = wqe::Opcode::try_from(case.get::<u8>("opcode")).expect("a known opcode");
    let mut body = Vec::new();
    if let Some(raddr) = case.find("raddr") {
        let remote = wqe::RemoteAddressSegment::new(raddr, case.get("rkey"));
        body.extend_from_slice(remote.as_bytes());
    }
    if let Some(add) = case.find("add") {
        body.extend_from_slice(wqe::AtomicSegment::fetch_add(add).as_bytes());
    }
    if let Some(swap) = case.find("swap") {
        let atomic = wqe::AtomicSegment::compare_swap(case.get("compare"), swap);
        body.extend_from_slice(atomic.as_bytes());
    }
    body.extend(scatter_list(case));
    if let Some(length) = case.find("inline") {
        let length = u16::try_from(length).expect("a short inline length");
        body.extend_from_slice(wqe::InlineHeader::of(length).as_bytes());
        body.extend((1..=length).map(|byte| byte as u8));
        body.resize(body.len().next_multiple_of(wqe::SEGMENT_BYTES), 0);
    }
    let segments = 1 + body.len() / wqe::SEGMENT_BYTES;
    let fence =
        if case.flag("fence") { wqe::FenceMode::SmallAndFence } else { wqe::FenceMode::None };
    let control = wqe::ControlSegment::new(
        opcode,
        case.get("index"),
        u24(case, "qpn"),
        segments.try_into().expect("a small entry"),
        flags(case.flag("signaled"), case.flag("solicited"), fence),
        case.find("imm").unwrap_or(0) as u32,
    );
    [control.as_bytes(), &body].concat()
}

/// A whole receive entry from its values.
fn receive(case: &Case) -> Vec<u8> {
    let mut bytes = scatter_list(case);
    if case.get::<u32>("sges") < case.get("room") {
        bytes.extend_from_slice(wqe::DataSegment::TERMINATOR.as_bytes());
    }
    bytes.resize(case.get::<usize>("room") * wqe::SEGMENT_BYTES, 0);
    bytes
}

fn scatter_list(case: &Case) -> Vec<u8> {
    (0..case.get::<usize>("sges"))
        .flat_map(|i| {
            let segment = wqe::DataSegment::new(
                case.get(&format!("addr{i}")),
                case.get(&format!("lkey{i}")),
                case.get(&format!("length{i}")),
            );
            <[u8; 16]>::read_from_bytes(segment.as_bytes()).expect("16 bytes")
        })
        .collect()
}

fn op_own(case: &Case) {
    let byte = cqe::OpcodeOwner::read_from_bytes(&case.bytes).expect("one byte");
    assert_eq!(byte.owner(), case.flag("owner"), "{}", case.line);
    assert_eq!(byte.solicited(), case.flag("solicited"), "{}", case.line);
    assert_eq!(byte.format() as u8, case.get::<u8>("format"), "{}", case.line);
    assert_eq!(byte.opcode(), case.get::<u8>("opcode"), "{}", case.line);
    if let Ok(kind) = byte.kind() {
        assert_eq!(kind.code(), case.get::<u8>("opcode"), "{}", case.line);
        both_ways(case, opcode_owner(case).with_format(byte.format()));
    }
}

fn opcode_owner(case: &Case) -> cqe::OpcodeOwner {
    let kind = cqe::CompletionOpcode::try_from(case.get::<u8>("opcode")).expect("a known opcode");
    cqe::OpcodeOwner::new()
        .with_kind(kind)
        .with_owner(case.flag("owner"))
        .with_solicited(case.find("solicited") == Some(1))
        .with_format(match case.find("format") {
            None | Some(0) => cqe::CompletionFormat::Plain,
            Some(1) => cqe::CompletionFormat::Inline32,
            Some(2) => cqe::CompletionFormat::Inline64,
            _ => cqe::CompletionFormat::Compressed,
        })
}

fn completion(case: &Case) -> cqe::Completion {
    cqe::Completion {
        reserved0: [0; 2],
        wqe_id: case.get::<u16>("wqe_id").into(),
        reserved4: [0; 13],
        ml_path: case.get("ml_path"),
        reserved18: [0; 4],
        slid: case.get::<u16>("slid").into(),
        flags_rqpn: cqe::SourceWord::new()
            .with_queue_pair(u24(case, "rqpn"))
            .with_service_level(case.get("sl"))
            .with_global_route(case.get("grh")),
        hds_ip_ext: case.get("hds_ip_ext"),
        l4_hdr_type_etc: case.get("l4_hdr_type_etc"),
        vlan_info: case.get::<u16>("vlan_info").into(),
        srqn_uidx: cqe::UserIndexWord::new().with_user_index(u24(case, "uidx")),
        imm_inval_pkey: case.get::<u32>("imm").into(),
        app: case.get("app"),
        app_op: case.get("app_op"),
        app_info: case.get::<u16>("app_info").into(),
        byte_cnt: case.get::<u32>("byte_cnt").into(),
        timestamp: case.get::<u64>("timestamp").into(),
        sop_drop_qpn: cqe::QueueWord::new()
            .with_queue_pair(u24(case, "qpn"))
            .with_opcode(case.get("sop")),
        wqe_counter: case.get::<u16>("wqe_counter").into(),
        signature: case.get("signature"),
        op_own: opcode_owner(case),
    }
}

fn completion128(case: &Case) {
    let data = std::array::from_fn(|i| i as u8 + 1);
    let value = cqe::Completion128 { data, completion: completion(case) };
    both_ways(case, value);
    assert_eq!(value.completion.inline32()[..], case.bytes[64..96], "{}", case.line);
}

fn error_completion(case: &Case) {
    let value = cqe::ErrorCompletion {
        reserved0: [0; 32],
        srqn: cqe::UserIndexWord::new().with_user_index(u24(case, "uidx")),
        reserved36: [0; 18],
        vendor_err_synd: case.get("vendor"),
        syndrome: case.get("syndrome"),
        s_wqe_opcode_qpn: cqe::QueueWord::new()
            .with_queue_pair(u24(case, "qpn"))
            .with_opcode(case.get("sop")),
        wqe_counter: case.get::<u16>("wqe_counter").into(),
        signature: case.get("signature"),
        op_own: opcode_owner(case),
    };
    both_ways(case, value);
    assert_eq!(value.syndrome().code(), case.get::<u8>("syndrome"));

    // What a failure shares with every completion is at the same place.
    let completion = value.as_completion();
    assert_eq!(completion.srqn_uidx, value.srqn);
    assert_eq!(completion.sop_drop_qpn, value.s_wqe_opcode_qpn);
    assert_eq!(completion.wqe_counter, value.wqe_counter);
    assert_eq!(completion.op_own, value.op_own);
    assert_eq!(completion.as_error(), &value);
}

fn arm(case: &Case) -> db::ArmWord {
    db::ArmWord::of(u24(case, "ci"), case.flag("solicited"), db::ArmSequence::of(case.get("sn")))
}

fn arm_doorbell(case: &Case) {
    let doorbell =
        db::ArmDoorbell { arm: arm(case), cqn: db::CompletionQueueWord::of(u24(case, "cqn")) };
    both_ways(case, doorbell);
    assert_eq!(doorbell.to_memory().as_bytes(), case.bytes);
    assert_eq!(db::ArmDoorbell::from_memory(doorbell.to_memory()), doorbell);
    assert_eq!(doorbell.arm.sequence().get(), case.get::<u8>("sn"));
}

fn header(case: &Case) {
    let method: Method = match case.kind {
        "header_invoke_write" => method::device::INVOKE_WRITE,
        "header_query_port" => method::device::QUERY_PORT,
        "header_get_context" => method::device::GET_CONTEXT,
        "header_query_gid_table" => method::device::QUERY_GID_TABLE,
        "header_query_gid_entry" => method::device::QUERY_GID_ENTRY,
        "header_destroy_pd" => method::pd::DESTROY,
        "header_create_cq" => method::cq::CREATE,
        "header_destroy_cq" => method::cq::DESTROY,
        "header_create_qp" => method::qp::CREATE,
        "header_destroy_qp" => method::qp::DESTROY,
        "header_destroy_mr" => method::mr::DESTROY,
        "header_query_mr" => method::mr::QUERY,
        "header_reg_dmabuf_mr" => method::mr::REG_DMABUF,
        "header_async_event_alloc" => method::async_event::ALLOC,
        "header_uar_alloc" => driver::uar::ALLOC,
        "header_uar_destroy" => driver::uar::DESTROY,
        kind => panic!("{kind} is not judged"),
    };
    let header = Header::new(method, case.get("num_attrs")).expect("few attributes");
    both_ways(case, header);
    assert_eq!(header.method(), method);
}

fn attribute(case: &Case) {
    let id = case.get("id");
    let attribute = match case.kind {
        "attr_handle" => Attribute::handle(id, case.get("handle")),
        "attr_descriptor" => Attribute::descriptor(id, case.get::<u32>("fd") as i32),
        "attr_u32" => Attribute::input_u32(id, case.get("value")),
        "attr_u64" => Attribute::input_u64(id, case.get("value")),
        "attr_address" => {
            let (address, len) = (case.get("address"), case.get("len"));
            assert_eq!(
                Attribute::input_at(id, address, len),
                Attribute::output_at(id, address, len)
            );
            Attribute::input_at(id, address, len)
        }
        "attr_optional_address" => {
            Attribute::output_at(id, case.get("address"), case.get("len")).optional()
        }
        kind => panic!("{kind} is not judged"),
    };
    both_ways(case, attribute);
}

fn command(case: &Case) {
    match case.kind {
        "reg_mr_local_write_remote_read_relaxed" => both_ways(
            case,
            write::RegMr {
                response: 0,
                start: case.get("start"),
                length: case.get("length"),
                hca_va: case.get("hca_va"),
                pd_handle: case.get("pd"),
                access_flags: AccessFlags::new()
                    .with_local_write(true)
                    .with_remote_read(true)
                    .with_relaxed_ordering(true),
            },
        ),
        "modify_qp_init_remote_write_remote_atomic" => both_ways(
            case,
            ModifyQp {
                qp_handle: case.get("qp"),
                attr_mask: QpAttrMask::new()
                    .with_state(true)
                    .with_pkey_index(true)
                    .with_port(true)
                    .with_access_flags(true),
                qp_access_flags: AccessFlags::new()
                    .with_remote_write(true)
                    .with_remote_atomic(true),
                qp_state: QpState::Init.code(),
                port_num: 1,
                ..ModifyQp::default()
            },
        ),
        "modify_qp_rtr_ipv4_mtu1024" => both_ways(case, ready_to_receive(case)),
        "modify_qp_rts" => both_ways(
            case,
            ModifyQp {
                qp_handle: case.get("qp"),
                attr_mask: QpAttrMask::new()
                    .with_state(true)
                    .with_timeout(true)
                    .with_retry_cnt(true)
                    .with_rnr_retry(true)
                    .with_sq_psn(true)
                    .with_max_rd_atomic(true),
                sq_psn: case.get("sq_psn"),
                qp_state: QpState::ReadyToSend.code(),
                max_rd_atomic: case.get("max_rd_atomic"),
                timeout: case.get("timeout"),
                retry_cnt: case.get("retry_cnt"),
                rnr_retry: case.get("rnr_retry"),
                ..ModifyQp::default()
            },
        ),
        "alloc_ucontext_4k_dyn" => both_ways(
            case,
            driver::AllocUcontextReqV2 {
                total_num_bfregs: case.get("total"),
                num_low_latency_bfregs: case.get("low_latency"),
                max_cqe_version: case.get("max_cqe_version"),
                lib_caps: driver::LibCaps::new().with_uar_4k(true).with_dyn_uar(true),
                ..driver::AllocUcontextReqV2::default()
            },
        ),
        "driver_create_cq_uar_page" => both_ways(
            case,
            driver::CreateCq {
                buf_addr: case.get("buf"),
                db_addr: case.get("db"),
                cqe_size: case.get("cqe_size"),
                flags: driver::CreateCqFlags::new().with_uar_page_index(true),
                uar_page_index: case.get("uar"),
                ..driver::CreateCq::default()
            },
        ),
        "driver_create_qp_uar_page" => both_ways(
            case,
            driver::CreateQp {
                buf_addr: case.get("buf"),
                db_addr: case.get("db"),
                sq_wqe_count: case.get("sq_wqe_count"),
                rq_wqe_count: case.get("rq_wqe_count"),
                rq_wqe_shift: case.get("rq_wqe_shift"),
                flags: driver::CreateQpFlags::new().with_uar_page_index(true),
                uidx: case.get("uidx"),
                bfreg_index: case.get("uar"),
                ..driver::CreateQp::default()
            },
        ),
        "gid_entry_roce_v2" => both_ways(
            case,
            GidEntry {
                gid: (u128::from(case.get::<u64>("high")) << 64
                    | u128::from(case.get::<u64>("low")))
                .to_be_bytes(),
                gid_index: case.get("index"),
                port_num: case.get("port"),
                gid_type: GidType::RoceV2.code(),
                netdev_ifindex: case.get("ifindex"),
            },
        ),
        kind => panic!("{kind} is not judged"),
    }
}

fn ready_to_receive(case: &Case) -> ModifyQp {
    let dgid = std::net::Ipv4Addr::new(10, 0, 0, case.get("last")).to_ipv6_mapped().octets();
    ModifyQp {
        dest: QpDest {
            dgid,
            sgid_index: case.get("sgid_index"),
            hop_limit: case.get("hop_limit"),
            traffic_class: case.get("traffic_class"),
            is_global: 1,
            port_num: 1,
            ..QpDest::default()
        },
        qp_handle: case.get("qp"),
        attr_mask: QpAttrMask::new()
            .with_state(true)
            .with_av(true)
            .with_path_mtu(true)
            .with_dest_qpn(true)
            .with_rq_psn(true)
            .with_max_dest_rd_atomic(true)
            .with_min_rnr_timer(true),
        rq_psn: case.get("rq_psn"),
        dest_qp_num: case.get("dest_qp_num"),
        qp_state: QpState::ReadyToReceive.code(),
        path_mtu: Mtu::Mtu1024.code(),
        max_dest_rd_atomic: case.get("max_dest_rd_atomic"),
        min_rnr_timer: case.get("min_rnr_timer"),
        ..ModifyQp::default()
    }
}

fn async_event(case: &Case) {
    let value = event::AsyncEvent {
        element: case.get("element"),
        event_type: case.get("type"),
        reserved: 0,
    };
    both_ways(case, value);
    // Every event of the header has a name.
    assert!(!matches!(value.kind(), event::AsyncEventType::Other(_)), "{}", case.line);
}
