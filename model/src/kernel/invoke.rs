//! The older commands, which `UVERBS_METHOD_INVOKE_WRITE` does
//! (`drivers/infiniband/core/uverbs_cmd.c`).

use super::attributes::{self, Call};
use super::file::{Outcome, State};
use super::objects::{Object, ProtectionDomain};
use super::{completion_queue, modify, query, queue_pair, region};
use doorbell::mlx5::abi::driver;
use doorbell::mlx5::abi::event::CompEvent;
use doorbell::mlx5::abi::verbs::device;
use doorbell::mlx5::abi::verbs::ioctl::{self, Header};
use doorbell::mlx5::abi::verbs::method::{UHW_IN, UHW_OUT, invoke_write, object};
use doorbell::mlx5::abi::verbs::qp;
use doorbell::mlx5::abi::verbs::write::{self as abi, WriteCommand};
use doorbell_hal::Errno;
use zerocopy::{FromBytes, IntoBytes};

/// The name of the command that an ioctl invokes.
pub(super) fn name(command: &[u64]) -> String {
    let bytes = command.as_bytes();
    let count = attributes::header(command).map_or(0, |header| usize::from(header.num_attrs));
    let attributes = (0..count).filter_map(|index| {
        let at = size_of::<Header>() + index * size_of::<ioctl::Attribute>();
        ioctl::Attribute::read_from_prefix(bytes.get(at..)?).ok()
    });
    let mut numbers = attributes
        .filter(|(attribute, _)| attribute.attr_id == invoke_write::WRITE_CMD)
        .map(|(attribute, _)| attribute.data);
    let number = numbers.next().unwrap_or(u64::MAX);
    match u32::try_from(number).ok().and_then(WriteCommand::from_code) {
        Some(known) => {
            let symbol = WriteCommand::SYMBOLS.iter().find(|(command, _)| *command == known);
            let symbol = symbol.map_or("", |(_, symbol)| *symbol);
            symbol
                .trim_start_matches("IB_USER_VERBS_CMD_")
                .trim_start_matches("IB_USER_VERBS_")
                .into()
        }
        None => format!("command {number:#x}"),
    }
}

/// `UVERBS_METHOD_INVOKE_WRITE`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn invoke(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let command = command(call)?;
        match command {
            WriteCommand::QueryDevice => query_device(state, call),
            WriteCommand::ExQueryDevice => query_device_extended(state, call),
            WriteCommand::AllocPd => allocate_domain(state, call),
            WriteCommand::DeallocPd => {
                let request: abi::DeallocPd = request(call, 0)?;
                destroy(state, request.pd_handle, object::PD)?;
                Ok(Outcome::Done)
            }
            WriteCommand::RegMr => register_memory(state, call),
            WriteCommand::DeregMr => {
                let request: abi::DeregMr = request(call, 0)?;
                destroy(state, request.mr_handle, object::MR)?;
                Ok(Outcome::Done)
            }
            WriteCommand::CreateCompChannel => create_channel(state, call),
            WriteCommand::CreateCq => create_queue(state, call),
            WriteCommand::ExCreateCq => create_queue_extended(state, call),
            WriteCommand::DestroyCq => destroy_queue(state, call),
            WriteCommand::CreateQp => create_pair(state, call),
            WriteCommand::ExCreateQp => create_pair_extended(state, call),
            WriteCommand::QueryQp => query_pair(state, call),
            WriteCommand::ModifyQp => modify_pair(state, call),
            WriteCommand::ExModifyQp => modify_pair_extended(state, call),
            WriteCommand::DestroyQp => destroy_pair(state, call),
        }
    }
}

/// `uapi_get_method`.
fn command(call: &Call<'_>) -> Result<WriteCommand, Errno> {
    /// `IB_USER_VERBS_CMD_COMMAND_MASK`, `IB_USER_VERBS_CMD_FLAG_EXTENDED`.
    const MASK: u32 = 0xff;
    const EXTENDED: u32 = 1 << 31;
    let number = call.constant(invoke_write::WRITE_CMD, u32::MAX.into())? as u32;
    if number & !(MASK | EXTENDED) != 0 {
        return Err(Errno::EINVAL);
    }
    WriteCommand::from_code(number).ok_or(Errno::EOPNOTSUPP)
}

/// The request, whose answer is at least `answer` bytes (`ib_uverbs_write`'s sizes,
/// `uverbs_request`).
///
/// # Safety
///
/// K2, for the call.
unsafe fn request<T: FromBytes + IntoBytes>(call: &Call<'_>, answer: usize) -> Result<T, Errno> {
    // SAFETY: K2, passed on to our caller.
    let bytes = unsafe { call.bytes(invoke_write::CORE_IN) }?;
    if bytes.len() < size_of::<T>() || call.length(invoke_write::CORE_OUT) < answer {
        return Err(Errno::ENOSPC);
    }
    let (request, rest) = T::read_from_prefix(&bytes).map_err(|_| Errno::ENOSPC)?;
    if rest.iter().any(|&byte| byte != 0) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(request)
}

/// `uverbs_response`.
///
/// # Safety
///
/// K2, for the call.
unsafe fn answer(call: &mut Call<'_>, bytes: &[u8]) -> Result<(), Errno> {
    // SAFETY: K2, passed on to our caller.
    match unsafe { call.output_or_zero(invoke_write::CORE_OUT, bytes) } {
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

/// `uverbs_response_length`.
fn answer_length(call: &Call<'_>, bytes: usize) -> u32 {
    call.length(invoke_write::CORE_OUT).min(bytes) as u32
}

/// Takes a handle for what `make` makes, and answers. Undoes it all if that fails.
///
/// # Safety
///
/// K2, for the call.
unsafe fn commit<T: IntoBytes + zerocopy::Immutable>(
    state: &mut State<'_>,
    call: &mut Call<'_>,
    object: Object,
    response: impl FnOnce(u32) -> T,
) -> Result<Outcome, Errno> {
    let handle = state.inner.objects.take_handle();
    state.inner.objects.commit(handle, object);
    // SAFETY: K2, passed on to our caller.
    match unsafe { answer(call, response(handle).as_bytes()) } {
        Ok(()) => Ok(Outcome::Done),
        Err(errno) => {
            let _ = state.destroy(handle);
            Err(errno)
        }
    }
}

fn destroy(state: &mut State<'_>, handle: u32, kind: u16) -> Result<(), Errno> {
    state.inner.objects.find(handle.into(), kind)?;
    state.destroy(handle)
}

unsafe fn query_device(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller.
    unsafe {
        let _: device::QueryDevice = request(call, size_of::<device::QueryDeviceResp>())?;
        state.context()?;
        answer(call, query::device_answer(state).as_bytes())?;
    }
    Ok(Outcome::Done)
}

unsafe fn query_device_extended(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    /// The answer's bytes up to and with `response_length`.
    const LEAST: usize = std::mem::offset_of!(device::ExQueryDeviceResp, odp_caps);
    /// `comp_mask` and `response_length` of the driver's answer.
    const DRIVER_LEAST: usize = 8;
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let asked: device::ExQueryDevice = request(call, LEAST)?;
        state.context()?;
        if asked.comp_mask != 0 || asked.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        // `mlx5_ib_query_device`.
        let room = call.length(UHW_OUT);
        if (room != 0 && room < DRIVER_LEAST) || call.bytes(UHW_IN)?.iter().any(|&b| b != 0) {
            return Err(Errno::EINVAL);
        }
        let driver = [0u32, DRIVER_LEAST as u32];
        call.output_if_asked(UHW_OUT, driver.as_bytes())?;
        let mut response = query::extended_device_answer(state);
        response.response_length = answer_length(call, size_of::<device::ExQueryDeviceResp>());
        answer(call, response.as_bytes())?;
    }
    Ok(Outcome::Done)
}

unsafe fn allocate_domain(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let _: abi::AllocPd = request(call, size_of::<abi::AllocPdResp>())?;
        state.context()?;
        let number = state.device.nic(|nic, _, _| nic.create_domain())?;
        let object = Object::ProtectionDomain(ProtectionDomain { number });
        let driver = driver::AllocPdResp { pdn: number };
        if let Err(errno) = call.answer_driver(UHW_OUT, driver.as_bytes()) {
            let _ = state.device.nic(|nic, _, _| nic.destroy_domain(number));
            return Err(errno);
        }
        commit(state, call, object, |handle| abi::AllocPdResp { pd_handle: handle })
    }
}

unsafe fn register_memory(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let asked: abi::RegMr = request(call, size_of::<abi::RegMrResp>())?;
        let made = region::register_memory(state, &asked)?;
        let key = made.key;
        commit(state, call, region::object(made), |handle| abi::RegMrResp {
            mr_handle: handle,
            lkey: key,
            rkey: key,
        })
    }
}

unsafe fn create_channel(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let size = size_of::<abi::CreateCompChannelResp>();
        let _: abi::CreateCompChannel = request(call, size)?;
        let queue = state.make_event_file(object::COMP_CHANNEL, size_of::<CompEvent>())?;
        let response = abi::CreateCompChannelResp { fd: queue.descriptor() as u32 };
        answer(call, response.as_bytes()).inspect_err(|_| queue.close())?;
    }
    Ok(Outcome::Done)
}

unsafe fn create_queue(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let asked: abi::CreateCq = request(call, size_of::<abi::CreateCqResp>())?;
        let asked = completion_queue::Asked {
            entries: asked.cqe,
            user_handle: asked.user_handle,
            channel: (asked.comp_channel >= 0).then(|| asked.comp_channel.into()),
            vector: asked.comp_vector,
            flags: 0,
            events: None,
            uar: None,
        };
        state.context()?;
        let (queue, cqe) = completion_queue::make(state, call, &asked)?;
        commit(state, call, Object::CompletionQueue(queue), |handle| abi::CreateCqResp {
            cq_handle: handle,
            cqe,
        })
    }
}

unsafe fn create_queue_extended(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let size = size_of::<abi::ExCreateCqResp>();
        let asked: abi::ExCreateCq = request(call, size)?;
        // `ib_uverbs_ex_create_cq`; `check_cq_create_flags`.
        if asked.comp_mask != 0 || asked.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        if asked.flags & !3 != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let asked = completion_queue::Asked {
            entries: asked.cqe,
            user_handle: asked.user_handle,
            channel: (asked.comp_channel >= 0).then(|| asked.comp_channel.into()),
            vector: asked.comp_vector,
            flags: asked.flags,
            events: None,
            uar: None,
        };
        state.context()?;
        let (queue, cqe) = completion_queue::make(state, call, &asked)?;
        let response_length = answer_length(call, size);
        commit(state, call, Object::CompletionQueue(queue), |handle| abi::ExCreateCqResp {
            base: abi::CreateCqResp { cq_handle: handle, cqe },
            comp_mask: 0,
            response_length,
        })
    }
}

unsafe fn destroy_queue(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let asked: abi::DestroyCq = request(call, size_of::<abi::DestroyCqResp>())?;
        destroy(state, asked.cq_handle, object::CQ)?;
        let response = abi::DestroyCqResp {
            comp_events_reported: state.remains.completions,
            async_events_reported: state.remains.asynchronous,
        };
        answer(call, response.as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// The bytes that precede an extended creation's `rwq_ind_tbl_handle`, which is the least.
const EX_CREATE_QP_LEAST: usize = std::mem::offset_of!(qp::ExCreateQp, rwq_ind_tbl_handle);

unsafe fn create_pair(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let asked: qp::CreateQp = request(call, size_of::<qp::CreateQpResp>())?;
        queue_pair::check_kind(asked.qp_type.into())?;
        if asked.is_srq != 0 {
            // There is no shared receive queue to name.
            return Err(Errno::EINVAL);
        }
        let asked = queue_pair::Asked {
            user_handle: asked.user_handle,
            domain: asked.pd_handle,
            send_queue: asked.send_cq_handle,
            receive_queue: asked.recv_cq_handle,
            cap: qp::QpCap {
                max_send_wr: asked.max_send_wr,
                max_recv_wr: asked.max_recv_wr,
                max_send_sge: asked.max_send_sge,
                max_recv_sge: asked.max_recv_sge,
                max_inline_data: asked.max_inline_data,
            },
            signal_all: asked.sq_sig_all != 0,
            events: None,
        };
        let (pair, response) = make_pair(state, call, &asked)?;
        commit(state, call, pair, |handle| qp::CreateQpResp { qp_handle: handle, ..response })
    }
}

unsafe fn create_pair_extended(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let mut bytes = call.bytes(invoke_write::CORE_IN)?;
        let room = size_of::<qp::ExCreateQpResp>();
        if bytes.len() < EX_CREATE_QP_LEAST || call.length(invoke_write::CORE_OUT) < room {
            return Err(Errno::ENOSPC);
        }
        if bytes.iter().skip(size_of::<qp::ExCreateQp>()).any(|&byte| byte != 0) {
            return Err(Errno::EOPNOTSUPP);
        }
        bytes.resize(size_of::<qp::ExCreateQp>(), 0);
        let asked = qp::ExCreateQp::read_from_bytes(&bytes).map_err(|_| Errno::ENOSPC)?;
        if asked.comp_mask & !1 != 0 || asked.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        queue_pair::check_kind(asked.qp_type.into())?;
        if asked.create_flags != 0 || asked.comp_mask != 0 || asked.is_srq != 0 {
            // Flags and tables are for raw packets and datagrams.
            return Err(Errno::EINVAL);
        }
        let asked = queue_pair::Asked {
            user_handle: asked.user_handle,
            domain: asked.pd_handle,
            send_queue: asked.send_cq_handle,
            receive_queue: asked.recv_cq_handle,
            cap: qp::QpCap {
                max_send_wr: asked.max_send_wr,
                max_recv_wr: asked.max_recv_wr,
                max_send_sge: asked.max_send_sge,
                max_recv_sge: asked.max_recv_sge,
                max_inline_data: asked.max_inline_data,
            },
            signal_all: asked.sq_sig_all != 0,
            events: None,
        };
        let (pair, base) = make_pair(state, call, &asked)?;
        let response_length = answer_length(call, room);
        commit(state, call, pair, |handle| qp::ExCreateQpResp {
            base: qp::CreateQpResp { qp_handle: handle, ..base },
            comp_mask: 0,
            response_length,
        })
    }
}

unsafe fn make_pair(
    state: &State<'_>,
    call: &mut Call<'_>,
    asked: &queue_pair::Asked,
) -> Result<(Object, qp::CreateQpResp), Errno> {
    state.context()?;
    let objects = &state.inner.objects;
    objects.domain(asked.domain.into())?;
    objects.completion_queue(asked.send_queue.into())?;
    objects.completion_queue(asked.receive_queue.into())?;
    // SAFETY: K2, passed on to our caller.
    let pair = unsafe { queue_pair::make(state, call, asked) }?;
    let response = qp::CreateQpResp {
        qpn: pair.number,
        max_send_wr: pair.cap.max_send_wr,
        max_recv_wr: pair.cap.max_recv_wr,
        max_send_sge: pair.cap.max_send_sge,
        max_recv_sge: pair.cap.max_recv_sge,
        max_inline_data: pair.cap.max_inline_data,
        ..Default::default()
    };
    Ok((Object::QueuePair(pair), response))
}

unsafe fn query_pair(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let asked: qp::QueryQp = request(call, size_of::<qp::QueryQpResp>())?;
        let response = modify::query(state, asked.qp_handle.into())?;
        answer(call, response.as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// `mlx5_ib_modify_qp`'s look at the driver's data.
unsafe fn check_modify_data(call: &Call<'_>) -> Result<(), Errno> {
    const LEAST: usize = size_of::<driver::ModifyQp>();
    // SAFETY: K2, passed on to our caller.
    let bytes = unsafe { call.bytes(UHW_IN) }?;
    if bytes.is_empty() {
        return Ok(());
    }
    let Ok((data, rest)) = driver::ModifyQp::read_from_prefix(&bytes) else {
        return Err(Errno::EINVAL);
    };
    debug_assert!(bytes.len() >= LEAST);
    if data.comp_mask != 0 || data.burst_info.reserved != 0 || rest.iter().any(|&byte| byte != 0) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

/// The driver's answer to a change, if there is room for all of it.
unsafe fn answer_modify(call: &mut Call<'_>) -> Result<(), Errno> {
    const BYTES: usize = size_of::<driver::ModifyQpResp>();
    let response = driver::ModifyQpResp { response_length: BYTES as u32, ..Default::default() };
    if call.length(UHW_OUT) < BYTES {
        return Ok(());
    }
    // SAFETY: K2, passed on to our caller.
    unsafe { call.output_if_asked(UHW_OUT, response.as_bytes()) }
}

unsafe fn modify_pair(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let asked: qp::ModifyQp = request(call, 0)?;
        check_modify_data(call)?;
        modify::modify(state, &asked)?;
        answer_modify(call)?;
    }
    Ok(Outcome::Done)
}

unsafe fn modify_pair_extended(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let asked: qp::ExModifyQp = request(call, size_of::<qp::ExModifyQpResp>())?;
        check_modify_data(call)?;
        modify::modify(state, &asked.base)?;
        let response_length = answer_length(call, size_of::<qp::ExModifyQpResp>());
        let response = qp::ExModifyQpResp { comp_mask: 0, response_length };
        answer(call, response.as_bytes())?;
        answer_modify(call)?;
    }
    Ok(Outcome::Done)
}

unsafe fn destroy_pair(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller, for all of this function.
    unsafe {
        let asked: qp::DestroyQp = request(call, size_of::<qp::DestroyQpResp>())?;
        destroy(state, asked.qp_handle, object::QP)?;
        let response = qp::DestroyQpResp { events_reported: state.remains.asynchronous };
        answer(call, response.as_bytes())?;
    }
    Ok(Outcome::Done)
}
