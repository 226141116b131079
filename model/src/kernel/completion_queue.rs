//! Completion queues (`drivers/infiniband/hw/mlx5/cq.c`).

use super::attributes::Call;
use super::file::{Outcome, State};
use super::methods;
use super::objects::{CompletionQueue, Object};
use super::routes::Route;
use crate::connectx::{CompletionQueueContext, Ring};
use doorbell::mlx5::abi::driver::CreateCq;
use doorbell::mlx5::abi::verbs::method::{UHW_IN, UHW_OUT, create_cq, destroy_cq, object};
use doorbell::mlx5::abi::verbs::write::DestroyCqResp;
use doorbell_hal::Errno;
use zerocopy::{FromZeros, IntoBytes};

/// What a completion queue is asked to be, by either way to ask.
pub(super) struct Asked {
    pub(super) entries: u32,
    pub(super) user_handle: u64,
    /// The descriptor of the completion channel.
    pub(super) channel: Option<i64>,
    pub(super) vector: u32,
    pub(super) flags: u32,
    /// The descriptor of the file of asynchronous events.
    pub(super) events: Option<i64>,
    /// The register page, where the driver's data does not name it.
    pub(super) uar: Option<u32>,
}

/// `UVERBS_METHOD_CQ_CREATE`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn create(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    // SAFETY: K2, passed on to our caller.
    let asked = unsafe {
        Asked {
            vector: call.input(create_cq::COMP_VECTOR)?,
            entries: call.input(create_cq::CQE)?,
            user_handle: call.input(create_cq::USER_HANDLE)?,
            channel: call.has(create_cq::COMP_CHANNEL).then(|| call.data(create_cq::COMP_CHANNEL)),
            flags: call.flags(create_cq::FLAGS, 3)?,
            events: call.has(create_cq::EVENT_FD).then(|| call.data(create_cq::EVENT_FD)),
            uar: match call.has(methods::CREATE_CQ_UAR_INDEX) {
                true => Some(call.input(methods::CREATE_CQ_UAR_INDEX)?),
                false => None,
            },
        }
    };
    // SAFETY: K2, passed on to our caller.
    let (queue, entries) = unsafe { make(state, call, &asked) }?;
    // SAFETY: K2, passed on to our caller.
    if let Err(errno) = unsafe { call.output(create_cq::RESP_CQE, entries.as_bytes()) } {
        discard(state, &queue);
        return Err(errno);
    }
    Ok(Outcome::Made(Object::CompletionQueue(queue)))
}

/// Undoes [`make`], when its answer cannot be written.
pub(super) fn discard(state: &State<'_>, queue: &CompletionQueue) {
    let _ = state.device.nic(|nic, _, _| nic.destroy_completion_queue(queue.number));
    state.device.routes.remove_queue(queue.number);
    state.device.unpin(queue.pinned);
}

/// `mlx5_ib_create_cq`. Answers with the entries that software may count on, too.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn make(
    state: &State<'_>,
    call: &mut Call<'_>,
    asked: &Asked,
) -> Result<(CompletionQueue, u32), Errno> {
    let capabilities = &state.device.capabilities;
    let channel = asked.channel.map(|file| state.event_file(file, object::COMP_CHANNEL));
    let channel = channel.transpose()?;
    let events = match asked.events {
        Some(file) => Some(state.event_file(file, object::ASYNC_EVENT)?),
        None => state.inner.default_events.clone(),
    };
    if asked.vector >= capabilities.completion_vectors {
        return Err(Errno::EINVAL);
    }
    let most = 1 << capabilities.log_max_completion_ring;
    if asked.entries > most {
        return Err(Errno::EINVAL);
    }
    let entries = (asked.entries + 1).next_power_of_two();
    if entries > most {
        return Err(Errno::EINVAL);
    }
    // SAFETY: K2, passed on to our caller.
    let (context, pinned) = unsafe { context(state, call, asked, entries) }?;
    let made = state.device.nic(|nic, _, _| nic.create_completion_queue(context));
    let number = made.inspect_err(|_| state.device.unpin(pinned))?;
    let route =
        Route { channel, events, user_handle: asked.user_handle, source: state.device.source() };
    state.device.routes.add_queue(number, route.clone());
    let queue = CompletionQueue { number, pinned, route };
    // SAFETY: K2, passed on to our caller.
    match unsafe { call.answer_driver(UHW_OUT, number.as_bytes()) } {
        Ok(()) => Ok((queue, entries - 1)),
        Err(errno) => {
            discard(state, &queue);
            Err(errno)
        }
    }
}

/// `create_cq_user`: the checked context, and the bytes pinned for it.
///
/// # Safety
///
/// K2, for the call.
unsafe fn context(
    state: &State<'_>,
    call: &Call<'_>,
    asked: &Asked,
    entries: u32,
) -> Result<(CompletionQueueContext, u64), Errno> {
    /// The bytes before `flags`, which is the least that the driver takes.
    const LEAST: usize = std::mem::offset_of!(CreateCq, flags);
    /// `IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN`.
    const IGNORE_OVERRUN: u32 = 2;
    // SAFETY: K2, passed on to our caller.
    let bytes = unsafe { call.bytes(UHW_IN) }?;
    let mut request = CreateCq::new_zeroed();
    let known = bytes.len().min(size_of::<CreateCq>());
    if known < LEAST {
        return Err(Errno::EINVAL);
    }
    request.as_mut_bytes()[..known].copy_from_slice(&bytes[..known]);
    if u16::from(request.flags) & !7 != 0
        || !matches!(request.cqe_size, 64 | 128)
        || request.reserved0 != 0
        || request.reserved1 != 0
    {
        return Err(Errno::EINVAL);
    }
    let length = u64::from(entries) * u64::from(request.cqe_size);
    // `ib_umem_get` of the ring, for writing; `mlx5_umem_find_best_cq_quantized_pgoff`: a ring
    // starts at a multiple of 64.
    let mut pinned = state.device.pin(request.buf_addr, length, true)?;
    let mut checked = || {
        if !request.buf_addr.is_multiple_of(64) {
            return Err(Errno::EINVAL);
        }
        // `mlx5_ib_db_map_user`: the whole page of the record.
        let page = super::user::page_size();
        pinned += state.device.pin(request.db_addr & !(page - 1), page, false)?;
        let context = state.context()?;
        let uar = match (asked.uar, request.flags.uar_page_index()) {
            (Some(uar), _) => uar,
            (None, true) => request.uar_page_index.into(),
            (None, false) if context.dynamic_uars => return Err(Errno::EINVAL),
            (None, false) => *context.static_uars.first().ok_or(Errno::EINVAL)?,
        };
        // No completion is compressed, and none of 64 bytes padded.
        if request.cqe_comp_en == 1 || request.flags.cqe_128b_pad() {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(uar)
    };
    let uar = checked().inspect_err(|_| state.device.unpin(pinned))?;
    let context = CompletionQueueContext {
        ring: Ring::flat(request.buf_addr, length),
        log_size: entries.trailing_zeros() as u8,
        entry_bytes: request.cqe_size as u8,
        record: request.db_addr,
        uar,
        ignore_overrun: asked.flags & IGNORE_OVERRUN != 0,
    };
    Ok((context, pinned))
}

/// `UVERBS_METHOD_CQ_DESTROY`, after the object is gone.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn destroyed(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    let answer = DestroyCqResp {
        comp_events_reported: state.remains.completions,
        async_events_reported: state.remains.asynchronous,
    };
    // SAFETY: K2, passed on to our caller.
    unsafe { call.output(destroy_cq::RESP, answer.as_bytes()) }?;
    Ok(Outcome::Done)
}
