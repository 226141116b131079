//! Queue pairs (`drivers/infiniband/hw/mlx5/qp.c`).

use super::attributes::Call;
use super::file::{Outcome, State};
use super::modify::Known;
use super::objects::{Object, QueuePair};
use super::routes::Route;
use crate::connectx::{QueuePairContext, Ring, Service};
use doorbell::mlx5::abi::driver::{CreateQp, CreateQpFlags, CreateQpResp};
use doorbell::mlx5::abi::verbs::method::{UHW_IN, UHW_OUT, create_qp, destroy_qp, object};
use doorbell::mlx5::abi::verbs::qp::{DestroyQpResp, QpCap, QpType};
use doorbell_hal::Errno;
use zerocopy::{FromZeros, IntoBytes};

/// The user index that stands for none (`MLX5_IB_DEFAULT_UIDX`).
const NO_USER_INDEX: u32 = 0xff_ffff;
/// The send register that stands for none (`MLX5_IB_INVALID_BFREG`).
const NO_REGISTER: u32 = 1 << 31;
/// Send registers for processes in a page, and all of them.
const REGISTERS: u32 = doorbell::mlx5::abi::uar::SEND_REGISTERS as u32;
const ALL_REGISTERS: u32 = 4;

/// What a queue pair is asked to be, by either way to ask.
pub(super) struct Asked {
    pub(super) user_handle: u64,
    pub(super) domain: u32,
    pub(super) send_queue: u32,
    pub(super) receive_queue: u32,
    pub(super) cap: QpCap,
    pub(super) signal_all: bool,
    /// The descriptor of the file of asynchronous events.
    pub(super) events: Option<i64>,
}

/// Whether the kind of queue pair is one that this device makes for anybody.
pub(super) fn check_kind(kind: u64) -> Result<(), Errno> {
    /// `IB_UVERBS_QPT_XRC_INI`, `_XRC_TGT`.
    const EXTENDED: [u64; 2] = [9, 10];
    match u8::try_from(kind).ok().and_then(QpType::from_code) {
        Some(QpType::ReliableConnected) => Ok(()),
        // CAP_NET_RAW.
        Some(QpType::RawPacket) => Err(Errno::EPERM),
        // `check_qp_type`, of a device that has none of these.
        Some(QpType::UnreliableConnected | QpType::UnreliableDatagram | QpType::Driver) => {
            Err(Errno::EOPNOTSUPP)
        }
        None if EXTENDED.contains(&kind) => Err(Errno::EOPNOTSUPP),
        None => Err(Errno::EINVAL),
    }
}

/// `UVERBS_METHOD_QP_CREATE`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn create(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    /// `IB_UVERBS_QP_CREATE_*`, and of them `SQ_SIG_ALL`.
    const FLAGS: u32 = 1 << 1 | 1 << 8 | 1 << 9 | 1 << 11 | 1 << 12;
    const SIGNAL_ALL: u32 = 1 << 12;
    // SAFETY: K2, passed on to our caller.
    let (cap, user_handle) = unsafe {
        (call.input::<QpCap>(create_qp::CAP)?, call.input::<u64>(create_qp::USER_HANDLE)?)
    };
    let kind = call.constant(create_qp::TYPE, u32::MAX.into())?;
    if QpType::ReliableConnected.code() != kind as u8 || kind > 0xff {
        check_kind(kind)?;
    }
    if call.has(create_qp::XRCD_HANDLE) {
        return Err(Errno::EINVAL);
    }
    let domain = call.handle(create_qp::PD_HANDLE).ok_or(Errno::ENOENT)?;
    let send_queue = call.handle(create_qp::SEND_CQ_HANDLE).ok_or(Errno::ENOENT)?;
    let receive_queue = call.handle(create_qp::RECV_CQ_HANDLE).ok_or(Errno::ENOENT)?;
    let flags = call.flags(create_qp::FLAGS, FLAGS)?;
    if flags & !SIGNAL_ALL != 0 {
        // `check_creation_flags`: for datagrams and raw packets.
        return Err(Errno::EINVAL);
    }
    if call.has(create_qp::SOURCE_QPN) {
        return Err(Errno::EOPNOTSUPP);
    }
    let asked = Asked {
        user_handle,
        domain,
        send_queue,
        receive_queue,
        cap,
        signal_all: flags & SIGNAL_ALL != 0,
        events: call.has(create_qp::EVENT_FD).then(|| call.data(create_qp::EVENT_FD)),
    };
    // SAFETY: K2, passed on to our caller.
    let pair = unsafe { make(state, call, &asked) }?;
    // SAFETY: K2, passed on to our caller.
    let answered = unsafe {
        call.output_or_zero(create_qp::RESP_CAP, pair.cap.as_bytes())
            .and_then(|()| call.output(create_qp::RESP_QP_NUM, pair.number.as_bytes()))
    };
    if let Err(errno) = answered {
        discard(state, &pair);
        return Err(errno);
    }
    Ok(Outcome::Made(Object::QueuePair(pair)))
}

/// Undoes [`make`], when its answer cannot be written.
pub(super) fn discard(state: &State<'_>, pair: &QueuePair) {
    let _ = state.device.nic(|nic, fabric, now| nic.destroy_queue_pair(pair.number, now, fabric));
    state.device.routes.remove_pair(pair.number);
    state.device.unpin(pair.pinned);
}

/// `mlx5_ib_create_qp`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn make(
    state: &State<'_>,
    call: &mut Call<'_>,
    asked: &Asked,
) -> Result<QueuePair, Errno> {
    let events = match asked.events {
        Some(file) => Some(state.event_file(file, object::ASYNC_EVENT)?),
        None => state.inner.default_events.clone(),
    };
    // SAFETY: K2, passed on to our caller.
    let request = unsafe { driver_request(call) }?;
    let mut cap = asked.cap;
    check_flags(request.flags)?;
    let user_index = user_index(state, request.uidx)?;
    check_sizes(state, &mut cap, &request)?;
    let (uar, register) = send_register(state, &request)?;
    let (context, pinned) = context(state, asked, &request, uar, user_index)?;
    let made = state.device.nic(|nic, _, _| nic.create_queue_pair(context));
    let number = made.inspect_err(|_| state.device.unpin(pinned))?;
    let route = Route {
        channel: None,
        events,
        user_handle: asked.user_handle,
        source: state.device.source(),
    };
    state.device.routes.add_pair(number, route.clone());
    let pair = QueuePair {
        number,
        domain: asked.domain,
        send_queue: asked.send_queue,
        receive_queue: asked.receive_queue,
        pinned,
        route,
        cap,
        signal_all: asked.signal_all,
        known: Known::default(),
    };
    let answer = CreateQpResp { bfreg_index: register, ..CreateQpResp::new_zeroed() };
    let room = call.length(UHW_OUT).min(size_of::<CreateQpResp>());
    // SAFETY: K2, passed on to our caller.
    match unsafe { call.output_if_asked(UHW_OUT, &answer.as_bytes()[..room]) } {
        Ok(()) => Ok(pair),
        Err(errno) => {
            discard(state, &pair);
            Err(errno)
        }
    }
}

/// `process_udata_size`, `check_ucmd_data`.
///
/// # Safety
///
/// K2, for the call.
unsafe fn driver_request(call: &Call<'_>) -> Result<CreateQp, Errno> {
    const LEAST: usize = std::mem::offset_of!(CreateQp, ece_options);
    const LAST: usize = std::mem::offset_of!(CreateQp, reserved);
    // SAFETY: K2, passed on to our caller.
    let bytes = unsafe { call.bytes(UHW_IN) }?;
    if bytes.len() < LEAST {
        return Err(Errno::EINVAL);
    }
    if bytes.iter().skip(LAST).any(|&byte| byte != 0) {
        return Err(Errno::EINVAL);
    }
    let mut request = CreateQp::new_zeroed();
    let known = bytes.len().min(size_of::<CreateQp>());
    request.as_mut_bytes()[..known].copy_from_slice(&bytes[..known]);
    Ok(request)
}

/// `process_vendor_flags`, of a device that has none of the capabilities asked for there.
fn check_flags(flags: CreateQpFlags) -> Result<(), Errno> {
    // Scattering into completions is ignored where the device cannot.
    let known = CreateQpFlags::new()
        .with_bfreg_index(true)
        .with_uar_page_index(true)
        .with_scatter_cqe(true)
        .with_allow_scatter_cqe(true);
    if u32::from(flags) & !u32::from(known) != 0 { Err(Errno::EINVAL) } else { Ok(()) }
}

/// `get_qp_user_index`.
fn user_index(state: &State<'_>, asked: u32) -> Result<u32, Errno> {
    match state.context()?.cqe_version {
        0 if asked == NO_USER_INDEX => Ok(NO_USER_INDEX),
        0 => Err(Errno::EINVAL),
        _ if asked >= NO_USER_INDEX => Err(Errno::EINVAL),
        _ => Ok(asked),
    }
}

/// `set_rq_size`, the checks of `create_user_qp`, `set_user_buf_size`.
fn check_sizes(state: &State<'_>, cap: &mut QpCap, request: &CreateQp) -> Result<(), Errno> {
    let most = 1 << state.device.capabilities.log_max_ring;
    if cap.max_recv_wr > most {
        return Err(Errno::EINVAL);
    }
    if cap.max_recv_wr == 0 {
        cap.max_recv_sge = 0;
        if request.rq_wqe_shift != 0 || request.rq_wqe_count != 0 {
            return Err(Errno::EINVAL);
        }
    } else if request.rq_wqe_shift > 30 {
        return Err(Errno::EINVAL);
    }
    let slots = request.sq_wqe_count;
    if slots > most || (slots != 0 && !slots.is_power_of_two()) {
        return Err(Errno::EINVAL);
    }
    let bytes = |count: u32, shift: u32| {
        // `check_shl_overflow` to a signed int.
        (u64::from(count) << shift <= i32::MAX as u64).then_some(u64::from(count) << shift)
    };
    let receives = bytes(request.rq_wqe_count, request.rq_wqe_shift).ok_or(Errno::EINVAL)?;
    let sends = bytes(slots, 6).ok_or(Errno::EINVAL)?;
    if receives + sends > i32::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// The register page, and the register to answer with (`_create_user_qp`).
fn send_register(state: &State<'_>, request: &CreateQp) -> Result<(u32, u32), Errno> {
    let context = state.context()?;
    match (request.flags.uar_page_index(), request.flags.bfreg_index()) {
        (true, true) => Err(Errno::EINVAL),
        (true, false) => Ok((request.bfreg_index, NO_REGISTER)),
        // Registers added to a context one by one: none were (`bfregn_to_uar_index`).
        (false, true) => Err(Errno::EINVAL),
        (false, false) if context.dynamic_uars => Err(Errno::EINVAL),
        (false, false) => {
            // `alloc_bfreg` shares registers out by need; here they take turns, from the second on.
            let registers = context.static_uars.len() as u32 * REGISTERS;
            let pairs = state
                .inner
                .objects
                .live()
                .filter(|(_, object)| matches!(object, Object::QueuePair(_)));
            let register = match registers {
                0 => return Err(Errno::ENOMEM),
                1 => 0,
                _ => 1 + pairs.count() as u32 % (registers - 1),
            };
            let page = context.static_uars.get((register / REGISTERS) as usize);
            let answer = register / REGISTERS * ALL_REGISTERS + register % REGISTERS;
            Ok((*page.ok_or(Errno::ENOMEM)?, answer))
        }
    }
}

/// The checked context, and the bytes pinned for it.
fn context(
    state: &State<'_>,
    asked: &Asked,
    request: &CreateQp,
    uar: u32,
    user_index: u32,
) -> Result<(QueuePairContext, u64), Errno> {
    let objects = &state.inner.objects;
    let protection_domain = objects.domain(asked.domain.into())?.number;
    let send_queue = objects.completion_queue(asked.send_queue.into())?.number;
    let receive_queue = objects.completion_queue(asked.receive_queue.into())?.number;
    let receives = u64::from(request.rq_wqe_count) << request.rq_wqe_shift;
    let sends = u64::from(request.sq_wqe_count) << 6;
    let length = receives + sends;
    let mut pinned = 0;
    if length > 0 {
        // Rings start at a multiple of 64 bytes (`mlx5_umem_find_best_quantized_pgoff`), and the
        // send ring follows the receive ring.
        let aligned = request.buf_addr.is_multiple_of(64) && receives.is_multiple_of(64);
        if request.buf_addr == 0 || (!aligned && sends > 0) {
            return Err(Errno::EINVAL);
        }
        pinned = state.device.pin(request.buf_addr, length, false)?;
    }
    let page = super::user::page_size();
    let record = state.device.pin(request.db_addr & !(page - 1), page, false);
    pinned += record.inspect_err(|_| state.device.unpin(pinned))?;
    let rings = Ring::flat(request.buf_addr, length);
    let context = QueuePairContext {
        service: Service::ReliableConnected,
        shared_receives: None,
        protection_domain,
        send_queue,
        receive_queue,
        send_ring: (sends > 0).then(|| rings.part(receives, sends)),
        receive_ring: (receives > 0).then(|| rings.part(0, receives)),
        log_send_slots: request.sq_wqe_count.checked_ilog2().unwrap_or(0) as u8,
        log_receive_entries: request.rq_wqe_count.checked_ilog2().unwrap_or(0) as u8,
        log_receive_stride: request.rq_wqe_shift as u8,
        record: request.db_addr,
        uar,
        user_index,
    };
    Ok((context, pinned))
}

/// `UVERBS_METHOD_QP_DESTROY`, after the object is gone.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn destroyed(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    let answer = DestroyQpResp { events_reported: state.remains.asynchronous };
    // SAFETY: K2, passed on to our caller.
    unsafe { call.output(destroy_qp::RESP, answer.as_bytes()) }?;
    Ok(Outcome::Done)
}
