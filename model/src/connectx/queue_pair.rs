//! Queue pairs: what they are made of, their states, and the changes between them.

use super::registration::KeyChange;
use super::send::BlueFlame;
use super::unreliable::Unreliable;
use super::{Refused, Ring};
use crate::fabric::Address;
use crate::memory::Access;
use crate::rc::{Attributes, ByteOrder, Connection, Mtu, Psn, SendAttributes};
use std::collections::VecDeque;

/// How a queue pair's messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliably, to one peer.
    ReliableConnected,
    /// To one peer, and perhaps not at all.
    UnreliableConnected,
    /// Reliably, to one peer, whose shared receive queue each message names (XRC).
    ExtendedConnected {
        /// The domain of the shared receive queues that the peer may name.
        domain: u32,
    },
    /// None: its entries change memory keys, of every protection domain. It is the kernel's own.
    Registration,
    /// To whom each message says, in one packet, and perhaps not at all.
    Datagram {
        /// The number that messages to it carry in place of its own: 0 or 1 for the queue pairs
        /// of subnet and general management, which every port has one of.
        well_known: Option<u8>,
        /// The number that its messages carry as their source in place of its own.
        source: Option<u32>,
    },
}

impl Service {
    /// Whether each message goes to whom it says.
    pub fn is_datagram(self) -> bool {
        matches!(self, Service::Datagram { .. })
    }

    /// Whether there is a peer to connect to.
    pub fn has_peer(self) -> bool {
        !matches!(self, Service::Datagram { .. } | Service::Registration)
    }

    /// Whether each message names the peer's shared receive queue.
    pub fn is_extended(self) -> bool {
        matches!(self, Service::ExtendedConnected { .. })
    }
}

/// What a queue pair is made of.
#[derive(Clone, Debug)]
pub struct QueuePairContext {
    /// How its messages travel.
    pub service: Service,
    /// The protection domain.
    pub protection_domain: u32,
    /// The completion queue of sends.
    pub send_queue: u32,
    /// The completion queue of receives.
    pub receive_queue: u32,
    /// The ring of sends, in slots of 64 bytes; `None` where nothing is sent.
    pub send_ring: Option<Ring>,
    /// The ring of receives; `None` where nothing is received, or from a shared queue.
    pub receive_ring: Option<Ring>,
    /// The shared queue that receives are taken from instead.
    pub shared_receives: Option<u32>,
    /// The binary logarithm of the number of send slots.
    pub log_send_slots: u8,
    /// The binary logarithm of the number of receive entries.
    pub log_receive_entries: u8,
    /// The binary logarithm of the bytes of a receive entry, from 4 on.
    pub log_receive_stride: u8,
    /// The device address of the doorbell record.
    pub record: u64,
    /// The UAR page of its doorbell register.
    pub uar: u32,
    /// What its completions are found by.
    pub user_index: u32,
}

/// The states of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Made, or taken back.
    Reset,
    /// Takes receives.
    Init,
    /// Answers its peer.
    ReadyToReceive,
    /// Works.
    ReadyToSend,
    /// Failed: everything is flushed.
    Error,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// From Reset to Init.
    ResetToInit,
    /// Init again, with other attributes.
    InitToInit,
    /// From Init to Ready to Receive.
    InitToReadyToReceive,
    /// From Ready to Receive to Ready to Send.
    ReadyToReceiveToReadyToSend,
    /// Ready to Send again, with other attributes.
    ReadyToSendToReadyToSend,
    /// From anywhere to Error.
    ToError,
    /// From anywhere to Reset.
    ToReset,
}

/// The way to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The address that packets are sent from.
    pub source: Address,
    /// The address that packets are sent to.
    pub destination: Address,
}

/// What a change of state brings. A change ignores what it does not take, and needs what it takes
/// but for what was set before.
#[derive(Clone, Debug, Default)]
pub struct QueuePairAttributes {
    /// What the peer may do.
    pub access: Option<Access>,
    /// The way to the peer.
    pub path: Option<Path>,
    /// The most bytes of a packet's payload.
    pub mtu: Option<Mtu>,
    /// The peer's queue pair number.
    pub peer: Option<u32>,
    /// What datagrams to this queue pair have to carry.
    pub queue_key: Option<u32>,
    /// The first sequence number to come in.
    pub expected_psn: Option<u32>,
    /// Reads and atomics that may come in at once.
    pub responder_resources: Option<u8>,
    /// The code of the wait that a receiver without receives asks for.
    pub rnr_timer: Option<u8>,
    /// The first sequence number to go out.
    pub first_psn: Option<u32>,
    /// Reads and atomics that may go out at once.
    pub max_outstanding_reads: Option<u8>,
    /// The code of the acknowledgement timeout.
    pub timeout: Option<u8>,
    /// How often to try again without an answer.
    pub retry_count: Option<u8>,
    /// How often to try again without a receive there.
    pub rnr_retry: Option<u8>,
    /// The set of counters that it counts in.
    pub counter_set: Option<u8>,
}

/// A send entry on its way.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) index: u16,
    pub(super) opcode: u8,
    pub(super) completion: doorbell::mlx5::abi::wqe::CompletionMode,
    /// What it changes about a memory key.
    pub(super) change: Option<Box<KeyChange>>,
}

/// A queue pair: its connection, and everything else.
pub(super) struct QueuePair {
    /// From Ready to Receive on.
    pub(super) connection: Option<Connection>,
    pub(super) core: Core,
}

/// What a connection's host needs of its queue pair.
pub(super) struct Core {
    pub(super) number: u32,
    pub(super) context: QueuePairContext,
    pub(super) state: State,
    pub(super) access: Access,
    pub(super) path: Option<Path>,
    /// The next send slot to read, modulo 2^16.
    pub(super) send_consumer: u16,
    /// One past the last send slot that a doorbell announced, modulo 2^16.
    pub(super) send_producer: u16,
    /// Entries read and not completed, in order.
    pub(super) in_flight: VecDeque<InFlight>,
    /// The next receive to read, modulo 2^16.
    pub(super) receive_consumer: u16,
    /// The first error has completed: later entries that ask for no more than that are silent.
    pub(super) had_error: bool,
    /// A completion found its queue failed. The queue pair has to fail, too.
    pub(super) lost_completion: bool,
    pub(super) blue_flame: BlueFlame,
    /// An unreliable connection, from Ready to Receive on.
    pub(super) unreliable: Unreliable,
    /// What the peer was told, for [`Connection`]s made later.
    pub(super) attributes: QueuePairAttributes,
}

impl QueuePair {
    pub(super) fn new(number: u32, context: QueuePairContext) -> Self {
        QueuePair {
            connection: None,
            core: Core {
                number,
                context,
                state: State::Reset,
                access: Access::default(),
                path: None,
                send_consumer: 0,
                send_producer: 0,
                in_flight: VecDeque::new(),
                receive_consumer: 0,
                had_error: false,
                lost_completion: false,
                blue_flame: BlueFlame::default(),
                unreliable: Unreliable::default(),
                attributes: QueuePairAttributes::default(),
            },
        }
    }

    /// Back to how it was made. Whatever is in its rings is forgotten.
    pub(super) fn reset(&mut self) {
        let context = self.core.context.clone();
        *self = QueuePair::new(self.core.number, context);
    }

    /// The changes that go on working: everything but to Error and to Reset.
    pub(super) fn change(
        &mut self,
        transition: Transition,
        attributes: &QueuePairAttributes,
    ) -> Result<(), Refused> {
        let core = &mut self.core;
        let from = match transition {
            Transition::ResetToInit => State::Reset,
            Transition::InitToInit | Transition::InitToReadyToReceive => State::Init,
            Transition::ReadyToReceiveToReadyToSend => State::ReadyToReceive,
            Transition::ReadyToSendToReadyToSend => State::ReadyToSend,
            Transition::ToError | Transition::ToReset => core.state,
        };
        if core.state != from {
            return Err(Refused::State { pair: core.number, state: core.state, transition });
        }
        core.attributes.update(attributes);
        if let Some(access) = attributes.access {
            core.access = access;
            if let Some(connection) = &mut self.connection {
                connection.set_peer_access(access);
            }
        }
        if let (Some(code), Some(connection)) = (attributes.rnr_timer, &mut self.connection) {
            connection.set_rnr_timer(code);
        }
        match transition {
            Transition::ResetToInit => core.state = State::Init,
            Transition::InitToReadyToReceive if !core.context.service.has_peer() => {
                core.state = State::ReadyToReceive;
            }
            Transition::InitToReadyToReceive
                if core.context.service == Service::UnreliableConnected =>
            {
                let known = &core.attributes;
                let missing = |what| Refused::Missing { pair: core.number, what };
                core.path = Some(known.path.ok_or(missing("path"))?);
                known.mtu.ok_or(missing("MTU"))?;
                core.unreliable.expect(known.expected_psn.unwrap_or(0));
                core.state = State::ReadyToReceive;
            }
            Transition::ReadyToReceiveToReadyToSend
                if core.context.service == Service::UnreliableConnected =>
            {
                core.unreliable.start(core.attributes.first_psn.unwrap_or(0));
                core.state = State::ReadyToSend;
            }
            Transition::InitToReadyToReceive => {
                let known = &core.attributes;
                let missing = |what| Refused::Missing { pair: core.number, what };
                core.path = Some(known.path.ok_or(missing("path"))?);
                self.connection = Some(Connection::new(Attributes {
                    peer: known.peer.ok_or(missing("peer"))?,
                    extended: core.context.service.is_extended(),
                    partition_key: 0xffff,
                    mtu: known.mtu.ok_or(missing("MTU"))?,
                    protection_domain: core.context.protection_domain,
                    peer_access: core.access,
                    expected_psn: Psn::new(known.expected_psn.ok_or(missing("expected PSN"))?),
                    responder_resources: known.responder_resources.unwrap_or(0),
                    rnr_timer: known.rnr_timer.unwrap_or(0),
                }));
                core.state = State::ReadyToReceive;
            }
            Transition::ReadyToReceiveToReadyToSend if !core.context.service.has_peer() => {
                core.state = State::ReadyToSend;
            }
            Transition::ReadyToReceiveToReadyToSend => {
                let known = &core.attributes;
                let missing = |what| Refused::Missing { pair: core.number, what };
                let sending = SendAttributes {
                    first_psn: Psn::new(known.first_psn.ok_or(missing("first PSN"))?),
                    max_outstanding_reads: known.max_outstanding_reads.unwrap_or(0),
                    timeout: known.timeout.unwrap_or(0),
                    retry_count: known.retry_count.unwrap_or(0),
                    rnr_retry: known.rnr_retry.unwrap_or(0),
                    window: SEND_WINDOW,
                    atomic_answers: ByteOrder::Native,
                };
                if let Some(connection) = &mut self.connection {
                    connection.start_sending(sending);
                }
                core.state = State::ReadyToSend;
            }
            Transition::InitToInit
            | Transition::ReadyToSendToReadyToSend
            | Transition::ToError
            | Transition::ToReset => {}
        }
        Ok(())
    }
}

/// Packets that a queue pair sends ahead of their acknowledgements.
const SEND_WINDOW: u32 = 128;

impl QueuePairAttributes {
    /// Takes over what `newer` sets.
    fn update(&mut self, newer: &QueuePairAttributes) {
        macro_rules! take {
            ($($field:ident),*) => {
                $(if newer.$field.is_some() { self.$field = newer.$field; })*
            };
        }
        take!(
            access,
            path,
            mtu,
            peer,
            queue_key,
            expected_psn,
            responder_resources,
            rnr_timer,
            first_psn,
            max_outstanding_reads,
            timeout,
            retry_count,
            rnr_retry,
            counter_set
        );
    }
}

impl Core {
    /// The set of counters that it counts in.
    pub(super) fn counter_set(&self) -> u8 {
        self.attributes.counter_set.unwrap_or(0)
    }

    /// The announced send slots that were not read yet.
    pub(super) fn announced(&self) -> u16 {
        self.send_producer.wrapping_sub(self.send_consumer)
    }
}
