//! Queue pairs.

use super::field::Field;
use super::layout::queue_pair::{create_qp_out, modify_qp_in, path, qpc};
use super::page_list;
use super::port::Port;
use super::status::{Done, Refusal, Status};
use super::{Firmware, answer};
use crate::connectx::{Path, QueuePairAttributes, QueuePairContext, Service, State, Transition};
use crate::fabric::Address;
use crate::kernel::LinkLayer;
use crate::memory::Access;
use crate::rc::Mtu;

/// Where the context is in every command and answer that has one.
const CONTEXT: usize = 24;
/// Where the path to the peer is in a context (`primary_address_path`), and its length.
const PATH: usize = 0x18;
const PATH_BYTES: usize = path::BYTES;
/// Where a global identifier is in a path (`rgid_rip`).
const PATH_GID: usize = 0x10;

/// A queue pair's context, as commands have changed it.
pub(super) type Context = Vec<u8>;

/// Kinds of queue pairs (`MLX5_QP_ST_*`).
mod service {
    pub(super) const RC: u64 = 0x0;
    pub(super) const UC: u64 = 0x1;
    pub(super) const UD: u64 = 0x2;
    pub(super) const XRC: u64 = 0x3;
    pub(super) const QP0: u64 = 0x7;
    pub(super) const QP1: u64 = 0x8;
    pub(super) const REGISTER: u64 = 0xc;
}

/// Where receives come from (`MLX5_*_RQ`).
mod receives {
    pub(super) const OWN: u64 = 0;
    pub(super) const SHARED: u64 = 1;
    pub(super) const NONE: u64 = 3;
}

/// What of a context a change of state takes over if the command says so (`MLX5_QP_OPTPAR_*`): the
/// bit, and the fields.
const OPTIONAL: &[(u32, &[Field])] = &[
    (1 << 1, &[qpc::RRE]),
    (1 << 2, &[qpc::RAE, qpc::ATOMIC_MODE]),
    (1 << 3, &[qpc::RWE]),
    (1 << 4, &[path::PKEY_INDEX.within(PATH)]),
    (1 << 5, &[qpc::Q_KEY]),
    (1 << 6, &[qpc::MIN_RNR_NAK]),
    (1 << 8, &[qpc::LOG_SRA_MAX]),
    (1 << 9, &[qpc::LOG_RRA_MAX]),
    (1 << 12, &[qpc::RETRY_COUNT]),
    (1 << 13, &[qpc::RNR_RETRY]),
    (1 << 14, &[path::ACK_TIMEOUT.within(PATH)]),
    (1 << 25, &[qpc::COUNTER_SET_ID]),
];
/// The bit of the whole path, which is no field.
const OPTIONAL_PATH: u32 = 1 << 7;

/// What a change of state always takes over.
fn required(transition: Transition) -> &'static [Field] {
    match transition {
        Transition::ResetToInit => {
            const {
                &[
                    qpc::PM_STATE,
                    qpc::Q_KEY,
                    qpc::RRE,
                    qpc::RWE,
                    qpc::RAE,
                    qpc::ATOMIC_MODE,
                    qpc::COUNTER_SET_ID,
                    qpc::DETH_SQPN,
                    path::PKEY_INDEX.within(PATH),
                    path::VHCA_PORT_NUM.within(PATH),
                ]
            }
        }
        Transition::InitToReadyToReceive => {
            const {
                &[
                    qpc::MTU,
                    qpc::LOG_MSG_MAX,
                    qpc::REMOTE_QPN,
                    qpc::NEXT_RCV_PSN,
                    qpc::LOG_RRA_MAX,
                    qpc::MIN_RNR_NAK,
                ]
            }
        }
        Transition::ReadyToReceiveToReadyToSend => {
            const {
                &[
                    qpc::NEXT_SEND_PSN,
                    qpc::LOG_SRA_MAX,
                    qpc::RETRY_COUNT,
                    qpc::RNR_RETRY,
                    path::ACK_TIMEOUT.within(PATH),
                ]
            }
        }
        _ => &[],
    }
}

impl Firmware {
    pub(super) fn create_queue_pair(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let context = context(input)?.to_vec();
        let made = decode(&context, input)?;
        let number = self.with_nic(|nic, _, _| nic.create_queue_pair(made))?;
        self.queue_pairs.insert(number, context);
        create_qp_out::QPN.set(output, number.into());
        Ok(())
    }

    pub(super) fn destroy_queue_pair(&mut self, input: &[u8]) -> Done {
        let number = modify_qp_in::QPN.get32(input);
        self.with_nic(|nic, fabric, now| nic.destroy_queue_pair(number, now, fabric))?;
        self.queue_pairs.remove(&number);
        Ok(())
    }

    pub(super) fn modify_queue_pair(&mut self, input: &[u8], transition: Transition) -> Done {
        let number = modify_qp_in::QPN.get32(input);
        let known =
            self.queue_pairs.get(&number).ok_or_else(|| Refusal::unknown("queue pair", number))?;
        let mut merged = known.clone();
        let mut attributes = QueuePairAttributes::default();
        if !matches!(transition, Transition::ToReset | Transition::ToError) {
            let optional = modify_qp_in::OPT_PARAM_MASK.get32(input);
            merge(&mut merged, context(input)?, transition, optional);
            attributes = decode_attributes(&merged, transition, &self.port);
        }
        let neighbor = attributes.path.map(|path| (path.destination, neighbor(&merged)));
        self.with_nic(|nic, fabric, now| {
            if let Some((address, mac)) = neighbor {
                fabric.set_neighbor(address, mac);
            }
            nic.modify_queue_pair(number, transition, &attributes, now, fabric)
        })?;
        self.queue_pairs.insert(number, merged);
        Ok(())
    }

    pub(super) fn query_queue_pair(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let number = modify_qp_in::QPN.get32(input);
        let known = self.queue_pairs.get(&number);
        let mut context = known.ok_or_else(|| Refusal::unknown("queue pair", number))?.clone();
        let state = self.network.with_nic(self.nic, |nic, _, _| nic.queue_pair_state(number));
        let code = match state.flatten() {
            Some(State::Reset) | None => 0,
            Some(State::Init) => 1,
            Some(State::ReadyToReceive) => 2,
            Some(State::ReadyToSend) => 3,
            Some(State::Error) => 6,
        };
        qpc::STATE.set(&mut context, code);
        answer(output, CONTEXT, &context);
        Ok(())
    }
}

impl Firmware {
    /// ATTACH_TO_MCG.
    pub(super) fn join_group(&mut self, input: &[u8]) -> Done {
        let (group, number) = member(input)?;
        self.with_nic(|nic, _, _| nic.join_group(group, number))
    }

    /// DETACH_FROM_MCG.
    pub(super) fn leave_group(&mut self, input: &[u8]) -> Done {
        let (group, number) = member(input)?;
        self.with_nic(|nic, _, _| nic.leave_group(group, number))
    }
}

/// A multicast group, and a queue pair.
fn member(input: &[u8]) -> Done<([u8; 16], u32)> {
    /// Where the group's identifier is (`struct mlx5_ifc_attach_to_mcg_in_bits`).
    const GROUP: usize = 16;
    let group = input.get(GROUP..GROUP + 16).and_then(|bytes| bytes.try_into().ok());
    let group = group.ok_or_else(|| {
        Refusal::new(Status::BadInputLength, format_args!("{} bytes", input.len()))
    })?;
    Ok((group, modify_qp_in::QPN.get32(input)))
}

fn context(input: &[u8]) -> Done<&[u8]> {
    input
        .get(CONTEXT..CONTEXT + qpc::BYTES)
        .ok_or_else(|| Refusal::new(Status::BadInputLength, format_args!("{} bytes", input.len())))
}

/// The context, with the rings that the command lists: receives first, then sends.
fn decode(context: &[u8], input: &[u8]) -> Done<QueuePairContext> {
    let service = match qpc::ST.get(context) {
        service::RC => Service::ReliableConnected,
        service::UC => Service::UnreliableConnected,
        service::XRC => Service::ExtendedConnected { domain: qpc::XRCD.get32(context) },
        service::REGISTER => Service::Registration,
        kind @ (service::UD | service::QP0 | service::QP1) => {
            let well_known = match kind {
                service::QP0 => Some(0),
                service::QP1 => Some(1),
                _ => None,
            };
            let source = qpc::DETH_SQPN.get32(context);
            Service::Datagram {
                well_known,
                source: (source != 0).then_some(source).or(well_known.map(u32::from)),
            }
        }
        other => return Err(Refusal::parameter("kind of a queue pair", other)),
    };
    let log_send_slots = qpc::LOG_SQ_SIZE.get(context) as u8;
    let log_receive_entries = qpc::LOG_RQ_SIZE.get(context) as u8;
    let log_receive_stride = qpc::LOG_RQ_STRIDE.get(context) as u8 + 4;
    let sends = match qpc::NO_SQ.is_set(context) {
        true => 0,
        false => 64 << log_send_slots,
    };
    let from = qpc::RQ_TYPE.get(context);
    let (receives, shared_receives) = match from {
        receives::OWN => (1 << (log_receive_entries + log_receive_stride), None),
        receives::SHARED => (0, Some(qpc::SRQN_RMPN_XRQN.get32(context))),
        receives::NONE => (0, None),
        other => return Err(Refusal::parameter("kind of a receive queue", other)),
    };
    let log_page = qpc::LOG_PAGE_SIZE.get32(context) + 12;
    let offset = qpc::PAGE_OFFSET.get(context);
    let ring = page_list::ring(input, page_list::LIST, log_page, offset, receives + sends)?;
    let send_queue = qpc::CQN_SND.get32(context);
    let receive_queue = qpc::CQN_RCV.get32(context);
    Ok(QueuePairContext {
        service,
        protection_domain: qpc::PD.get32(context),
        // A queue pair with one direction may have no completion queue for the other.
        send_queue: if send_queue == 0 { receive_queue } else { send_queue },
        receive_queue: if receive_queue == 0 { send_queue } else { receive_queue },
        send_ring: (sends > 0).then(|| ring.part(receives, sends)),
        receive_ring: (receives > 0).then(|| ring.part(0, receives)),
        shared_receives,
        log_send_slots,
        log_receive_entries,
        log_receive_stride,
        record: qpc::DBR_ADDR.get(context),
        uar: qpc::UAR_PAGE.get32(context),
        user_index: qpc::USER_INDEX.get32(context),
    })
}

/// Takes over into `known` what a command's context says that a change of state is about.
fn merge(known: &mut [u8], new: &[u8], transition: Transition, optional: u32) {
    for field in required(transition) {
        field.copy(new, known);
    }
    for (bit, fields) in OPTIONAL {
        if optional & bit != 0 {
            fields.iter().for_each(|field| field.copy(new, known));
        }
    }
    let takes_path = transition == Transition::InitToReadyToReceive;
    if takes_path || optional & OPTIONAL_PATH != 0 {
        let key = path::PKEY_INDEX.within(PATH).get(known);
        if let (Some(to), Some(from)) =
            (known.get_mut(PATH..PATH + PATH_BYTES), new.get(PATH..PATH + PATH_BYTES))
        {
            to.copy_from_slice(from);
        }
        if optional & 1 << 4 == 0 {
            path::PKEY_INDEX.within(PATH).set(known, key);
        }
    }
}

/// What a context says to the NIC at a change of state.
fn decode_attributes(context: &[u8], transition: Transition, port: &Port) -> QueuePairAttributes {
    let byte = |field: Field| field.get(context) as u8;
    let mut attributes = QueuePairAttributes {
        access: Some(Access {
            local_write: true,
            remote_write: qpc::RWE.is_set(context),
            remote_read: qpc::RRE.is_set(context),
            remote_atomic: qpc::RAE.is_set(context),
        }),
        queue_key: Some(qpc::Q_KEY.get32(context)),
        counter_set: Some(byte(qpc::COUNTER_SET_ID)),
        ..QueuePairAttributes::default()
    };
    if !matches!(transition, Transition::ResetToInit | Transition::InitToInit) {
        attributes.path = decode_path(context, port);
        attributes.mtu = Mtu::from_verbs(byte(qpc::MTU));
        attributes.peer = Some(qpc::REMOTE_QPN.get32(context));
        attributes.expected_psn = Some(qpc::NEXT_RCV_PSN.get32(context));
        attributes.responder_resources = Some(1 << byte(qpc::LOG_RRA_MAX));
        attributes.rnr_timer = Some(byte(qpc::MIN_RNR_NAK));
        attributes.first_psn = Some(qpc::NEXT_SEND_PSN.get32(context));
        attributes.max_outstanding_reads = Some(1 << byte(qpc::LOG_SRA_MAX));
        attributes.timeout = Some(byte(path::ACK_TIMEOUT.within(PATH)));
        attributes.retry_count = Some(byte(qpc::RETRY_COUNT));
        attributes.rnr_retry = Some(byte(qpc::RNR_RETRY));
    }
    attributes
}

/// The Ethernet address of the peer, or of the router to it.
fn neighbor(context: &[u8]) -> [u8; 6] {
    let mac = path::RMAC_47_32.within(PATH).get(context) << 32
        | path::RMAC_31_0.within(PATH).get(context);
    let [_, _, mac @ ..] = mac.to_be_bytes();
    mac
}

/// The way to the peer: between local identifiers on an InfiniBand subnet, between global ones on
/// Ethernet. `None` where this side has no such address.
fn decode_path(context: &[u8], port: &Port) -> Option<Path> {
    let to = context.get(PATH..PATH + PATH_BYTES)?;
    match port.link_layer {
        LinkLayer::InfiniBand => Some(Path {
            source: Address::Lid(port.lid),
            destination: Address::Lid(path::RLID.get(to) as u16),
        }),
        LinkLayer::Ethernet => {
            let source = port.roce_address(path::SRC_ADDR_INDEX.get(to) as usize)?;
            let gid = to.get(PATH_GID..PATH_GID + 16)?;
            let mut destination = [0; 16];
            destination.copy_from_slice(gid);
            Some(Path { source: Address::Gid(source.gid), destination: Address::Gid(destination) })
        }
    }
}
