//! The context, and what the device, its port and its identifiers are.

use super::attributes::Call;
use super::file::{Context, Outcome, State};
use super::methods;
use super::port::{GidKind, LinkLayer};
use doorbell::mlx5::abi::driver::{AllocUcontextReqV2, AllocUcontextResp};
use doorbell::mlx5::abi::event::AsyncEvent;
use doorbell::mlx5::abi::uar::SEND_REGISTER_BYTES;
use doorbell::mlx5::abi::verbs::device::{ExQueryDeviceResp, QueryDeviceResp};
use doorbell::mlx5::abi::verbs::method::{self, UHW_IN, UHW_OUT, object};
use doorbell::mlx5::abi::verbs::port::{self as abi, GidEntry, QueryPortResp, QueryPortRespEx};
use doorbell_hal::Errno;
use zerocopy::big_endian::U64;
use zerocopy::{FromZeros, IntoBytes};

/// `IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS`.
const OPTIONAL_MR_ACCESS: u64 = 1;

/// `MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET`, `_MKEY_UPDATE_TAG`.
const CONTEXT_ANSWERS: u32 = 1 | 1 << 5;

/// The most send registers of a context (`MLX5_MAX_BFREGS`).
const MAX_REGISTERS: u32 = 512;

/// Send registers for processes in a page (`MLX5_NON_FP_BFREGS_PER_UAR`).
const REGISTERS: u32 = doorbell::mlx5::abi::uar::SEND_REGISTERS as u32;

/// `UVERBS_METHOD_GET_CONTEXT`, with `mlx5_ib_alloc_ucontext`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn get_context(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    let vectors = state.device.capabilities.completion_vectors;
    // SAFETY: K2, passed on to our caller.
    unsafe {
        call.output_if_asked(method::get_context::NUM_COMP_VECTORS, vectors.as_bytes())?;
        let support = method::get_context::CORE_SUPPORT;
        call.output_if_asked(support, OPTIONAL_MR_ACCESS.as_bytes())?;
    }
    if state.inner.context.is_some() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: K2, passed on to our caller.
    let context = unsafe { allocate_context(state, call) }?;
    state.inner.context = Some(context);
    Ok(Outcome::Done)
}

/// `mlx5_ib_alloc_ucontext`.
///
/// # Safety
///
/// K2, for the call.
unsafe fn allocate_context(state: &State<'_>, call: &mut Call<'_>) -> Result<Context, Errno> {
    // SAFETY: K2, passed on to our caller.
    let bytes = unsafe { call.bytes(UHW_IN) }?;
    // The old request has 8 bytes, the new one 16 at least.
    if bytes.len() != 8 && bytes.len() < 16 {
        return Err(Errno::EINVAL);
    }
    let mut request = AllocUcontextReqV2::new_zeroed();
    let known = bytes.len().min(size_of::<AllocUcontextReqV2>());
    request.as_mut_bytes()[..known].copy_from_slice(&bytes[..known]);
    if u32::from(request.flags) & !1 != 0
        || request.comp_mask != 0
        || request.reserved0 != 0
        || request.reserved1 != 0
        || request.reserved2 != 0
    {
        return Err(Errno::EOPNOTSUPP);
    }
    // `ALIGN`, which wraps to 0.
    let registers = request.total_num_bfregs.checked_next_multiple_of(REGISTERS).unwrap_or(0);
    if request.num_low_latency_bfregs > registers.wrapping_sub(1) {
        return Err(Errno::EINVAL);
    }
    if request.flags.devx() {
        // `mlx5_ib_devx_create`: the device has no user contexts.
        return Err(Errno::EINVAL);
    }
    let mut static_uars = Vec::new();
    if !request.lib_caps.dyn_uar() {
        // `calc_total_bfregs`, `allocate_uars`.
        if registers == 0 {
            return Err(Errno::EINVAL);
        }
        if registers > MAX_REGISTERS {
            return Err(Errno::ENOMEM);
        }
        for _ in 0..registers / REGISTERS {
            match state.device.nic(|nic, _, _| nic.allocate_uar()) {
                Ok(page) => static_uars.push(page),
                Err(errno) => {
                    release(state, &static_uars);
                    return Err(errno);
                }
            }
        }
    }
    let context = Context {
        cqe_version: request.max_cqe_version.min(1),
        dynamic_uars: request.lib_caps.dyn_uar(),
        static_uars,
    };
    let mut answer = context_answer(state, &context);
    let length = call.length(UHW_OUT).min(size_of::<AllocUcontextResp>());
    answer.response_length = length as u32;
    // SAFETY: K2, passed on to our caller.
    let written = unsafe { call.output(UHW_OUT, &answer.as_bytes()[..length]) };
    match written {
        // Without room the answer has no bytes, and none are copied.
        Ok(()) | Err(Errno::ENOENT) => Ok(context),
        Err(errno) => {
            release(state, &context.static_uars);
            Err(errno)
        }
    }
}

fn release(state: &State<'_>, uars: &[u32]) {
    for &page in uars {
        let _ = state.device.nic(|nic, _, _| nic.free_uar(page));
    }
}

/// `set_ucontext_resp`.
fn context_answer(state: &State<'_>, context: &Context) -> AllocUcontextResp {
    let capabilities = &state.device.capabilities;
    AllocUcontextResp {
        qp_tab_size: 1 << capabilities.log_max_queue_pairs,
        bf_reg_size: if capabilities.blue_flame { SEND_REGISTER_BYTES as u32 } else { 0 },
        tot_bfregs: context.static_uars.len() as u32 * REGISTERS,
        cache_line_size: 64,
        max_sq_desc_sz: capabilities.max_send_entry,
        max_rq_desc_sz: capabilities.max_receive_entry,
        max_send_wqebb: 1 << capabilities.log_max_ring,
        max_recv_wr: 1 << capabilities.log_max_ring,
        max_srq_recv_wr: 1 << capabilities.log_max_ring,
        num_ports: 1,
        comp_mask: CONTEXT_ANSWERS,
        cqe_version: context.cqe_version,
        // Queries of the device, and address handles, take the driver's data.
        cmds_supp_uhw: 3,
        // One more than what the firmware says: no bytes need to be in the entry.
        eth_min_inline: match state.device.port().link_layer {
            LinkLayer::Ethernet => 1,
            LinkLayer::InfiniBand => 0,
        },
        log_uar_size: 12,
        num_uars_per_page: 1,
        ..AllocUcontextResp::new_zeroed()
    }
}

/// `UVERBS_METHOD_QUERY_CONTEXT`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn query_context(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    let context = state.context()?;
    let mut answer = context_answer(state, context);
    let length = call.length(methods::QUERY_CONTEXT_UCTX).min(size_of::<AllocUcontextResp>());
    answer.response_length = length as u32;
    let vectors = state.device.capabilities.completion_vectors;
    // SAFETY: K2, passed on to our caller.
    unsafe {
        call.output_if_asked(methods::QUERY_CONTEXT_COMP_VECTORS, vectors.as_bytes())?;
        let support = methods::QUERY_CONTEXT_CORE_SUPPORT;
        call.output_if_asked(support, OPTIONAL_MR_ACCESS.as_bytes())?;
        call.output_or_zero(methods::QUERY_CONTEXT_UCTX, answer.as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// `UVERBS_METHOD_INFO_HANDLES`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn handles(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    let room = call.length(methods::INFO_HANDLES_LIST);
    if room == 0 || !room.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    let kind = call.constant(methods::INFO_OBJECT_ID, u16::MAX.into())? as u16;
    let of_kind = state.inner.objects.live().filter(|(_, object)| object.kind() == kind);
    let handles: Vec<u32> = of_kind.map(|(handle, _)| handle).take(room / 4).collect();
    let total = handles.len() as u32;
    // SAFETY: K2, passed on to our caller.
    unsafe {
        call.output(methods::INFO_HANDLES_LIST, handles.as_bytes())?;
        call.output(methods::INFO_TOTAL_HANDLES, total.as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// The port number of RDMA devices counts from 1; this device has one port.
fn check_port(port: u64) -> Result<(), Errno> {
    if port == 1 { Ok(()) } else { Err(Errno::EINVAL) }
}

/// `UVERBS_METHOD_QUERY_PORT`, with `mlx5_query_port_roce` or `mlx5_query_hca_port`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn port(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    state.context()?;
    check_port(call.constant(method::query_port::PORT_NUM, u8::MAX.into())?)?;
    let answer = QueryPortRespEx { legacy_resp: port_answer(state), ..Default::default() };
    // SAFETY: K2, passed on to our caller.
    unsafe { call.output_or_zero(method::query_port::RESP, answer.as_bytes()) }?;
    Ok(Outcome::Done)
}

/// What the kernel says of the port.
pub(super) fn port_answer(state: &State<'_>) -> QueryPortResp {
    /// `IB_UVERBS_PCF_CM_SUP` and `IB_UVERBS_PCF_IP_BASED_GIDS`.
    const ETHERNET: u32 = 1 << 16 | 1 << 26;
    /// The capability mask of an InfiniBand port, as served to the stock stack.
    const INFINIBAND: u32 = 0x0201_4848;
    let capabilities = &state.device.capabilities;
    let port = state.device.port();
    let mtu = |mtu: crate::rc::Mtu| mtu as u8 + 1;
    let state = if port.up { abi::PortState::Active } else { abi::PortState::Down };
    let common = QueryPortResp {
        max_msg_sz: 1 << capabilities.log_max_message,
        gid_tbl_len: super::port::gid_table_size(port.link_layer) as u32,
        state: state.code(),
        max_mtu: mtu(capabilities.max_mtu),
        active_mtu: mtu(port.active_mtu),
        // 4 lanes of 25 Gbit/s.
        active_width: 2,
        active_speed: 32,
        // LinkUp, or Disabled.
        phys_state: if port.up { 5 } else { 3 },
        ..Default::default()
    };
    match port.link_layer {
        LinkLayer::Ethernet => QueryPortResp {
            port_cap_flags: ETHERNET,
            pkey_tbl_len: 1,
            link_layer: abi::LinkLayer::Ethernet.code(),
            // `IB_UVERBS_QPF_GRH_REQUIRED`.
            flags: 1,
            ..common
        },
        LinkLayer::InfiniBand => QueryPortResp {
            port_cap_flags: INFINIBAND,
            pkey_tbl_len: 128,
            lid: port.lid,
            sm_lid: 1,
            subnet_timeout: 18,
            max_vl_num: 1,
            link_layer: abi::LinkLayer::InfiniBand.code(),
            ..common
        },
    }
}

/// The entries of the identifier table that are taken.
fn gid_entries(state: &State<'_>) -> Vec<GidEntry> {
    let port = state.device.port();
    let taken = port.gids.iter().enumerate().filter_map(|(index, gid)| Some((index, (*gid)?)));
    taken
        .map(|(index, gid)| GidEntry {
            gid: gid.raw,
            gid_index: index as u32,
            port_num: 1,
            gid_type: match gid.kind {
                GidKind::InfiniBand => abi::GidType::InfiniBand.code(),
                GidKind::RoceV1 => abi::GidType::RoceV1.code(),
                GidKind::RoceV2 => abi::GidType::RoceV2.code(),
            },
            netdev_ifindex: match port.link_layer {
                LinkLayer::Ethernet => 2,
                LinkLayer::InfiniBand => 0,
            },
        })
        .collect()
}

/// `UVERBS_METHOD_QUERY_GID_TABLE`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn gid_table(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    call.flags(method::query_gid_table::FLAGS, 0)?;
    let size = call.constant(method::query_gid_table::ENTRY_SIZE, u64::MAX)?;
    let room = call.length(method::query_gid_table::RESP_ENTRIES) as u64;
    // `uverbs_attr_ptr_get_array_size`: a whole number of entries, one at least.
    if size == 0 || room == 0 || !room.is_multiple_of(size) {
        return Err(Errno::EINVAL);
    }
    state.context()?;
    let entries = gid_entries(state);
    if entries.len() as u64 > room / size {
        // `rdma_query_gid_table` says ENOMEM; the handler makes EINVAL of any failure.
        return Err(Errno::EINVAL);
    }
    let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
    let mut bytes = Vec::new();
    for entry in &entries {
        let mut padded = entry.as_bytes().to_vec();
        padded.resize(size, 0);
        bytes.extend_from_slice(&padded);
    }
    let count = entries.len() as u64;
    // SAFETY: K2, passed on to our caller.
    unsafe {
        call.output(method::query_gid_table::RESP_ENTRIES, &bytes)?;
        call.output(method::query_gid_table::RESP_NUM_ENTRIES, count.as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// `UVERBS_METHOD_QUERY_GID_ENTRY`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn gid_entry(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    call.flags(method::query_gid_entry::FLAGS, 0)?;
    let port = call.constant(method::query_gid_entry::PORT, u32::MAX.into())?;
    let index = call.constant(method::query_gid_entry::GID_INDEX, u32::MAX.into())?;
    state.context()?;
    check_port(port)?;
    let size = super::port::gid_table_size(state.device.port().link_layer);
    if index >= size as u64 {
        return Err(Errno::EINVAL);
    }
    let entries = gid_entries(state);
    let entry = entries.iter().find(|entry| u64::from(entry.gid_index) == index);
    let entry = entry.ok_or(Errno::ENODATA)?;
    // SAFETY: K2, passed on to our caller.
    unsafe { call.output_or_zero(method::query_gid_entry::RESP_ENTRY, entry.as_bytes()) }?;
    Ok(Outcome::Done)
}

/// `UVERBS_METHOD_ASYNC_EVENT_ALLOC`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn asynchronous_file(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    let queue = state.make_event_file(object::ASYNC_EVENT, size_of::<AsyncEvent>())?;
    state.device.routes.add_file(&queue);
    call.set_data(method::async_event_alloc::FD_HANDLE, queue.descriptor() as i64 as u64);
    state.inner.default_events.get_or_insert(queue);
    Ok(Outcome::Done)
}

/// `copy_query_dev_fields`, with `mlx5_ib_query_device`.
pub(super) fn device_answer(state: &State<'_>) -> QueryDeviceResp {
    /// `IB_DEVICE_CHANGE_PHY_PORT`, `PORT_ACTIVE_EVENT`, `SYS_IMAGE_GUID`, `RC_RNR_NAK_GEN`.
    const FLAGS: u32 = 1 << 5 | 1 << 10 | 1 << 11 | 1 << 12;
    /// `IB_ATOMIC_HCA`.
    const ATOMIC_WITHIN_NIC: u32 = 1;
    let capabilities = &state.device.capabilities;
    let guid = U64::new(state.device.settings.guid);
    let max_send_entry = u32::from(capabilities.max_send_entry.min(512));
    let responder = 1 << capabilities.log_max_responder_resources;
    let pairs = 1 << capabilities.log_max_queue_pairs;
    QueryDeviceResp {
        // 16.31.1006, as ConnectX-5 firmware counts.
        fw_ver: 16 << 32 | 31 << 16 | 1006,
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: u64::MAX,
        page_size_cap: !0xfff,
        vendor_id: 0x2c9,
        vendor_part_id: 0x1017,
        max_qp: pairs,
        max_qp_wr: 1 << capabilities.log_max_ring,
        device_cap_flags: FLAGS,
        // Control and remote address segment, then data.
        max_sge: ((max_send_entry - 32) / 16).min(u32::from(capabilities.max_receive_entry) / 16),
        max_sge_rd: 30,
        max_cq: 1 << capabilities.log_max_completion_queues,
        max_cqe: (1 << capabilities.log_max_completion_ring) - 1,
        max_mr: 1 << capabilities.log_max_keys,
        max_pd: 1 << capabilities.log_max_protection_domains,
        max_qp_rd_atom: 1 << capabilities.log_max_outstanding_reads,
        max_res_rd_atom: responder * pairs,
        max_qp_init_rd_atom: responder,
        atomic_cap: ATOMIC_WITHIN_NIC,
        max_pkeys: match state.device.port().link_layer {
            LinkLayer::Ethernet => 1,
            LinkLayer::InfiniBand => 128,
        },
        local_ca_ack_delay: 16,
        phys_port_cnt: 1,
        ..QueryDeviceResp::new_zeroed()
    }
}

/// `ib_uverbs_ex_query_device`'s answer.
pub(super) fn extended_device_answer(state: &State<'_>) -> ExQueryDeviceResp {
    let base = device_answer(state);
    ExQueryDeviceResp {
        base,
        timestamp_mask: i64::MAX as u64,
        hca_core_clock: 1_000_000,
        device_cap_flags_ex: base.device_cap_flags.into(),
        ..ExQueryDeviceResp::new_zeroed()
    }
}
