//! Changes of a queue pair's state (`uverbs_cmd.c` `modify_qp`, `verbs.c` `_ib_modify_qp` and
//! `ib_modify_qp_is_ok`, `qp.c` `mlx5_ib_modify_qp`), and queries of it.

use super::file::State;
use super::objects::QueuePair;
use super::port::{self, LinkLayer};
use crate::connectx::{self, Path, QueuePairAttributes, Transition};
use crate::fabric::Address;
use crate::memory::Access;
use crate::rc::Mtu;
use doorbell::mlx5::abi::verbs::AccessFlags;
use doorbell::mlx5::abi::verbs::qp::{ModifyQp, QpAttrMask, QpDest, QpState, QueryQpResp};
use doorbell_hal::Errno;

/// What the kernel remembers of a queue pair's attributes.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    state: u8,
    port: u8,
    /// The values that were set last.
    values: ModifyQp,
}

/// The attributes that every kernel knows (`IB_QP_ATTR_STANDARD_BITS`).
const STANDARD: u32 = (1 << 21) - 1;

/// What a change of state of a reliable connection must bring, and what it may.
fn table(from: QpState, to: QpState) -> Option<(QpAttrMask, QpAttrMask)> {
    let none = QpAttrMask::new();
    let identity = none.with_pkey_index(true).with_port(true).with_access_flags(true);
    Some(match (from, to) {
        (QpState::Reset, QpState::Reset) => (none, none),
        (QpState::Reset, QpState::Init) => (identity, none),
        (QpState::Reset, _) => return None,
        (_, QpState::Reset | QpState::Error) => (none, none),
        (QpState::Init, QpState::Init) => (none, identity),
        (QpState::Init, QpState::ReadyToReceive) => (
            none.with_av(true)
                .with_path_mtu(true)
                .with_dest_qpn(true)
                .with_rq_psn(true)
                .with_max_dest_rd_atomic(true)
                .with_min_rnr_timer(true),
            none.with_alt_path(true).with_access_flags(true).with_pkey_index(true),
        ),
        (QpState::ReadyToReceive, QpState::ReadyToSend) => (
            none.with_timeout(true)
                .with_retry_cnt(true)
                .with_rnr_retry(true)
                .with_sq_psn(true)
                .with_max_rd_atomic(true),
            changeable(),
        ),
        (QpState::ReadyToSend, QpState::ReadyToSend) => (none, changeable()),
        (QpState::ReadyToSend, QpState::SendQueueDrain) => {
            (none, none.with_en_sqd_async_notify(true))
        }
        (QpState::SendQueueDrain, QpState::ReadyToSend) => (none, changeable()),
        _ => return None,
    })
}

fn changeable() -> QpAttrMask {
    QpAttrMask::new()
        .with_cur_state(true)
        .with_alt_path(true)
        .with_access_flags(true)
        .with_min_rnr_timer(true)
        .with_path_mig_state(true)
}

/// The firmware command of a change (`__mlx5_ib_modify_qp`'s table, which has no way to drain).
fn transition(from: QpState, to: QpState) -> Option<Transition> {
    Some(match (from, to) {
        (_, QpState::Reset) => Transition::ToReset,
        (_, QpState::Error) => Transition::ToError,
        (QpState::Reset, QpState::Init) => Transition::ResetToInit,
        (QpState::Init, QpState::Init) => Transition::InitToInit,
        (QpState::Init, QpState::ReadyToReceive) => Transition::InitToReadyToReceive,
        (QpState::ReadyToReceive, QpState::ReadyToSend) => Transition::ReadyToReceiveToReadyToSend,
        (QpState::ReadyToSend, QpState::ReadyToSend) => Transition::ReadyToSendToReadyToSend,
        _ => return None,
    })
}

/// Changes a queue pair.
pub(super) fn modify(state: &mut State<'_>, request: &ModifyQp) -> Result<(), Errno> {
    let mask = request.attr_mask;
    if u32::from(mask) & !STANDARD != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let pair = state.inner.objects.queue_pair(request.qp_handle.into())?;
    check_request(pair, request)?;
    let path = match mask.av() {
        true => Some(path(state, &request.dest)?),
        false => None,
    };
    if mask.alt_path() && state.device.port().link_layer == LinkLayer::Ethernet {
        return Err(Errno::EINVAL);
    }
    let from = if mask.cur_state() { request.cur_qp_state } else { pair.known.state };
    let to = if mask.state() { request.qp_state } else { from };
    let (Some(from), Some(to)) = (QpState::from_code(from), QpState::from_code(to)) else {
        return Err(Errno::EINVAL);
    };
    check_transition(from, to, mask)?;
    check_values(state, request)?;
    if (from, to) == (QpState::Reset, QpState::Reset) {
        return Ok(());
    }
    let mut attributes = attributes(pair, request, path)?;
    // 0 is for ever.
    if let Some(timeout) = attributes.timeout.as_mut().filter(|timeout| **timeout != 0) {
        *timeout = (*timeout).max(state.device.settings.least_timeout);
    }
    let transition = transition(from, to).ok_or(Errno::EINVAL)?;
    let number = pair.number;
    state.device.nic(|nic, fabric, now| {
        nic.modify_queue_pair(number, transition, &attributes, now, fabric)
    })?;
    if let Some(pair) = state.inner.objects.queue_pair_mut(request.qp_handle.into()) {
        pair.known.remember(request, to);
    }
    Ok(())
}

/// The checks of `modify_qp`.
fn check_request(pair: &QueuePair, request: &ModifyQp) -> Result<(), Errno> {
    let mask = request.attr_mask;
    let is_port = |port: u8| port == 1;
    if mask.port() && !is_port(request.port_num) {
        return Err(Errno::EINVAL);
    }
    if mask.av() {
        if !is_port(request.dest.port_num) {
            return Err(Errno::EINVAL);
        }
        let to_receive = mask.state() && request.qp_state == QpState::ReadyToReceive.code();
        if to_receive && request.dest.port_num != pair.known.port {
            return Err(Errno::EINVAL);
        }
        if !to_receive && mask.port() && request.port_num != request.dest.port_num {
            return Err(Errno::EINVAL);
        }
    }
    if mask.alt_path()
        && (!is_port(request.alt_port_num)
            || !is_port(request.alt_dest.port_num)
            || request.alt_port_num != request.alt_dest.port_num)
    {
        return Err(Errno::EINVAL);
    }
    let most = QpState::Error.code();
    if (mask.cur_state() && request.cur_qp_state > most)
        || (mask.state() && request.qp_state > most)
    {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `ib_modify_qp_is_ok`.
fn check_transition(from: QpState, to: QpState, mask: QpAttrMask) -> Result<(), Errno> {
    let running = matches!(
        from,
        QpState::ReadyToReceive
            | QpState::ReadyToSend
            | QpState::SendQueueDrain
            | QpState::SendQueueError
    );
    if mask.cur_state() && !running {
        return Err(Errno::EINVAL);
    }
    let (required, optional) = table(from, to).ok_or(Errno::EINVAL)?;
    let (required, optional) = (u32::from(required), u32::from(optional));
    let mask = u32::from(mask);
    let state = u32::from(QpAttrMask::new().with_state(true));
    if mask & required != required || mask & !(required | optional | state) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// The checks of `mlx5_ib_modify_qp` and `__mlx5_ib_modify_qp`.
fn check_values(state: &State<'_>, request: &ModifyQp) -> Result<(), Errno> {
    let mask = request.attr_mask;
    let capabilities = &state.device.capabilities;
    let partitions = match state.device.port().link_layer {
        LinkLayer::Ethernet => 1,
        LinkLayer::InfiniBand => 128,
    };
    let too_deep = |depth: u8, log: u8| u32::from(depth) > 1 << log;
    if (mask.pkey_index() && request.pkey_index >= partitions)
        || (mask.max_rd_atomic()
            && too_deep(request.max_rd_atomic, capabilities.log_max_outstanding_reads))
        || (mask.max_dest_rd_atomic()
            && too_deep(request.max_dest_rd_atomic, capabilities.log_max_responder_resources))
        || (mask.path_mtu() && Mtu::from_verbs(request.path_mtu).is_none())
    {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// The way that a destination names (`rdma_fill_sgid_attr`, `mlx5_set_path`).
fn path(state: &State<'_>, dest: &QpDest) -> Result<Path, Errno> {
    /// `IB_RATE_2_5_GBPS`, `IB_RATE_800_GBPS`; 0 is the port's own.
    const RATES: std::ops::RangeInclusive<u8> = 2..=23;
    let port = state.device.port();
    let global = dest.is_global != 0;
    if port.link_layer == LinkLayer::Ethernet && !global {
        return Err(Errno::EINVAL);
    }
    let source = match global {
        true => {
            let index = usize::from(dest.sgid_index);
            if index >= port::gid_table_size(port.link_layer) {
                return Err(Errno::EINVAL);
            }
            Some(port.gids.get(index).copied().flatten().ok_or(Errno::ENODATA)?)
        }
        false => None,
    };
    if dest.static_rate != 0 && !RATES.contains(&dest.static_rate) {
        return Err(Errno::EINVAL);
    }
    Ok(match (port.link_layer, source) {
        (LinkLayer::Ethernet, Some(gid)) => {
            Path { source: Address::Gid(gid.raw), destination: Address::Gid(dest.dgid) }
        }
        _ => Path { source: Address::Lid(port.lid), destination: Address::Lid(dest.dlid) },
    })
}

/// What the firmware command carries.
fn attributes(
    pair: &QueuePair,
    request: &ModifyQp,
    path: Option<Path>,
) -> Result<QueuePairAttributes, Errno> {
    let mask = request.attr_mask;
    let known = &pair.known.values;
    // `set_qpc_atomic_flags`.
    let access = (mask.access_flags() || mask.max_dest_rd_atomic()).then(|| {
        let flags =
            if mask.access_flags() { request.qp_access_flags } else { known.qp_access_flags };
        let depth = if mask.max_dest_rd_atomic() {
            request.max_dest_rd_atomic
        } else {
            known.max_dest_rd_atomic
        };
        let access = Access::from_verbs(flags.into());
        match depth {
            0 => Access { remote_read: false, remote_atomic: false, ..access },
            _ => access,
        }
    });
    // Depths travel as logarithms, rounded up; 0 and 1 are the same.
    let depth = |set: bool, value: u8| set.then(|| value.max(1).next_power_of_two());
    let value = |set: bool, value: u32| set.then_some(value & 0xff_ffff);
    let byte = |set: bool, value: u8| set.then_some(value);
    Ok(QueuePairAttributes {
        counter_set: None,
        queue_key: None,
        access,
        path,
        mtu: if mask.path_mtu() { Mtu::from_verbs(request.path_mtu) } else { None },
        peer: value(mask.dest_qpn(), request.dest_qp_num),
        expected_psn: value(mask.rq_psn(), request.rq_psn),
        responder_resources: depth(mask.max_dest_rd_atomic(), request.max_dest_rd_atomic),
        rnr_timer: byte(mask.min_rnr_timer(), request.min_rnr_timer & 0x1f),
        first_psn: value(mask.sq_psn(), request.sq_psn),
        max_outstanding_reads: depth(mask.max_rd_atomic(), request.max_rd_atomic),
        timeout: byte(mask.timeout(), request.timeout & 0x1f),
        retry_count: byte(mask.retry_cnt(), request.retry_cnt & 7),
        rnr_retry: byte(mask.rnr_retry(), request.rnr_retry & 7),
    })
}

impl Known {
    fn remember(&mut self, request: &ModifyQp, state: QpState) {
        let mask = request.attr_mask;
        self.state = state.code();
        if state == QpState::Reset {
            *self = Known { port: self.port, ..Known::default() };
            return;
        }
        if mask.port() {
            self.port = request.port_num;
        }
        let values = &mut self.values;
        macro_rules! take {
            ($($set:ident => $($field:ident),+;)*) => {
                $(if mask.$set() { $(values.$field = request.$field;)+ })*
            };
        }
        take! {
            access_flags => qp_access_flags;
            pkey_index => pkey_index;
            port => port_num;
            av => dest;
            path_mtu => path_mtu;
            timeout => timeout;
            retry_cnt => retry_cnt;
            rnr_retry => rnr_retry;
            rq_psn => rq_psn;
            max_rd_atomic => max_rd_atomic;
            alt_path => alt_dest, alt_port_num, alt_timeout, alt_pkey_index;
            min_rnr_timer => min_rnr_timer;
            sq_psn => sq_psn;
            max_dest_rd_atomic => max_dest_rd_atomic;
            path_mig_state => path_mig_state;
            dest_qpn => dest_qp_num;
        }
    }
}

/// `mlx5_ib_query_qp`: the state is the NIC's, and what the kernel believes from then on.
pub(super) fn query(state: &mut State<'_>, handle: u64) -> Result<QueryQpResp, Errno> {
    let number = state.inner.objects.queue_pair(handle)?.number;
    let now = state.device.nic(|nic, _, _| {
        nic.queue_pair_state(number)
            .ok_or(connectx::Refused::Unknown { what: "queue pair", number })
    })?;
    let code = match now {
        connectx::State::Reset => QpState::Reset,
        connectx::State::Init => QpState::Init,
        connectx::State::ReadyToReceive => QpState::ReadyToReceive,
        connectx::State::ReadyToSend => QpState::ReadyToSend,
        connectx::State::Error => QpState::Error,
    }
    .code();
    let pair = state.inner.objects.queue_pair_mut(handle).ok_or(Errno::ENOENT)?;
    pair.known.state = code;
    let values = &pair.known.values;
    Ok(QueryQpResp {
        dest: values.dest,
        alt_dest: values.alt_dest,
        max_send_wr: pair.cap.max_send_wr,
        max_recv_wr: pair.cap.max_recv_wr,
        max_send_sge: pair.cap.max_send_sge,
        max_recv_sge: pair.cap.max_recv_sge,
        max_inline_data: pair.cap.max_inline_data,
        rq_psn: values.rq_psn,
        sq_psn: values.sq_psn,
        dest_qp_num: values.dest_qp_num,
        qp_access_flags: AccessFlags::from(u32::from(values.qp_access_flags) & 0xf),
        pkey_index: values.pkey_index,
        alt_pkey_index: values.alt_pkey_index,
        qp_state: code,
        cur_qp_state: code,
        path_mtu: values.path_mtu,
        path_mig_state: values.path_mig_state,
        max_rd_atomic: values.max_rd_atomic,
        max_dest_rd_atomic: values.max_dest_rd_atomic,
        min_rnr_timer: values.min_rnr_timer,
        port_num: pair.known.port,
        timeout: values.timeout,
        retry_cnt: values.retry_cnt,
        rnr_retry: values.rnr_retry,
        alt_port_num: values.alt_port_num,
        alt_timeout: values.alt_timeout,
        sq_sig_all: pair.signal_all.into(),
        ..QueryQpResp::default()
    })
}
