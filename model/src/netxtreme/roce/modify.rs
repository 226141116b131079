//! Changes of queue pairs.

use super::{Outcome, done};
use crate::fabric::{Address, Fabric};
use crate::memory::Access;
use crate::netxtreme::Netxtreme;
use crate::netxtreme::queue_pair::{Attributes, Core, QueuePair};
use crate::netxtreme::ring::Place;
use crate::rc::{self, ByteOrder, Connection, Mtu, Psn, SendAttributes};
use doorbell::bnxt::abi::command::ModifyQueuePair;
use doorbell::bnxt::abi::event::CommandStatus;
use doorbell::bnxt::abi::field::{QueuePairKind, QueuePairState};

/// Packets that a queue pair sends ahead of their acknowledgements.
const SEND_WINDOW: u32 = 128;

/// Reads that a table of inbound reads holds: each has two slots, and two are over.
fn inbound_reads(slots: u8) -> u8 {
    slots.saturating_sub(2) / 2
}

/// Reads that a table of outbound reads holds: one slot is over.
fn outbound_reads(slots: u8) -> u8 {
    slots.saturating_sub(1)
}

impl Attributes {
    /// Takes over what a command changes.
    fn update(&mut self, command: &ModifyQueuePair) -> Result<(), CommandStatus> {
        let mask = command.modify_mask;
        if mask.access() {
            self.access = command.access.into();
        }
        if mask.pkey() {
            self.partition_key = command.pkey.get();
        }
        if mask.qkey() {
            self.queue_key = command.qkey.get();
        }
        if mask.dgid() {
            self.gid = command.dgid;
        }
        if mask.flow_label() {
            self.flow_label = command.flow_label.get();
        }
        if mask.sgid_index() {
            self.gid_index = command.sgid_index.get();
        }
        if mask.hop_limit() {
            self.hop_limit = command.hop_limit;
        }
        if mask.traffic_class() {
            self.traffic_class = command.traffic_class;
        }
        if mask.dest_mac() {
            self.destination_mac = command.dest_mac;
        }
        if mask.path_mtu() {
            let code = command.path_mtu_pingpong_push_enable.mtu();
            let mtu = Mtu::from_verbs(code + 1);
            self.mtu = Some(mtu.ok_or(CommandStatus::InvalidParameter)?);
        }
        if mask.timeout() {
            self.timeout = command.timeout;
        }
        if mask.retry_cnt() {
            self.retry_count = command.retry_cnt;
        }
        if mask.rnr_retry() {
            self.rnr_retry = command.rnr_retry;
        }
        if mask.min_rnr_timer() {
            self.rnr_timer = command.min_rnr_timer;
        }
        if mask.rq_psn() {
            self.expected_psn = command.rq_psn.get() & 0xff_ffff;
        }
        if mask.sq_psn() {
            self.first_psn = command.sq_psn.get() & 0xff_ffff;
        }
        if mask.max_rd_atomic() {
            self.outbound_slots = command.max_rd_atomic;
        }
        if mask.max_dest_rd_atomic() {
            self.inbound_slots = command.max_dest_rd_atomic;
        }
        if mask.dest_qp_id() {
            self.peer = command.dest_qp_id.get() & 0xff_ffff;
        }
        self.network = command.network_type_en_sqd_async_notify_new_state.network();
        Ok(())
    }
}

/// Back to how it was made. Whatever is in its rings is forgotten.
fn reset(pair: &mut QueuePair) {
    pair.connection = None;
    let core = &mut pair.core;
    core.state = QueuePairState::Reset;
    (core.own, core.driver) = (Place::default(), Place::default());
    if let Some(receives) = &mut core.receives {
        (receives.own, receives.driver) = (Place::default(), Place::default());
    }
    core.access = Access::default();
    core.path = None;
    core.attributes = Attributes::default();
    core.in_flight.clear();
    (core.done, core.untold, core.message) = (0, false, 0);
    (core.lost_completion, core.failed) = (false, false);
}

impl Netxtreme {
    pub(super) fn modify_queue_pair(
        &mut self,
        command: &ModifyQueuePair,
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> Outcome {
        use QueuePairState::*;
        let bad = CommandStatus::InvalidParameter;
        let number = command.qp_cid.get();
        let Some(pair) = self.engine.pairs.get_mut(&number) else { return Err(bad) };
        let old = pair.core.state;
        let mask = command.modify_mask;
        let byte = command.network_type_en_sqd_async_notify_new_state;
        let new = match mask.state() {
            true => QueuePairState::from_code(byte.state()).ok_or(bad)?,
            false => old,
        };
        match new {
            Reset => {
                fabric.settle(self.port);
                reset(pair);
                self.schedule.forget(number);
                return Ok(number.into());
            }
            Error => {
                self.fail_pair(number, now, fabric);
                return Ok(number.into());
            }
            _ => {}
        }
        let allowed = matches!(
            (old, new),
            (Reset | Init, Init)
                | (Init | ReadyToReceive, ReadyToReceive)
                | (ReadyToReceive | ReadyToSend, ReadyToSend)
        );
        if !allowed {
            self.log.note(format_args!("queue pair {number:#x}: from {old:?} to {new:?}"));
            return Err(bad);
        }
        if !self.has_context(number, now, fabric) {
            return Err(CommandStatus::Internal);
        }
        let refused = self.change(command, old, new).err();
        if let Some((status, why)) = refused {
            self.log.note(format_args!("queue pair {number:#x}: {old:?} to {new:?}: {why}"));
            return Err(status);
        }
        if let Some(QueuePair { connection: Some(connection), .. }) =
            self.engine.pairs.get_mut(&number)
        {
            connection.set_longest_run(fabric.longest_run());
            if let Some(most) = fabric.most_outstanding() {
                connection.limit_window(most);
            }
        }
        if let Some(pair) = self.engine.pairs.get(&number)
            && let Some((_, destination)) = pair.core.path
        {
            fabric.set_neighbor(destination, pair.core.attributes.destination_mac);
        }
        self.schedule.make_ready(number);
        done()
    }

    /// Makes a change that goes on working.
    fn change(
        &mut self,
        command: &ModifyQueuePair,
        old: QueuePairState,
        new: QueuePairState,
    ) -> Result<(), (CommandStatus, &'static str)> {
        use QueuePairState::*;
        let bad = |why| (CommandStatus::InvalidParameter, why);
        let mask = command.modify_mask;
        let gid = self.engine.gids.get(&command.sgid_index.get()).map(|gid| gid.gid);
        let pair = self.engine.pairs.get_mut(&command.qp_cid.get()).ok_or(bad("there is none"))?;
        let reliable = pair.core.kind == QueuePairKind::ReliableConnected;
        let (receiving, sending) =
            (old == Init && new == ReadyToReceive, old == ReadyToReceive && new == ReadyToSend);
        // The firmware is strict about which attributes come when.
        if reliable && receiving {
            let needed = [
                (mask.dgid(), "no destination identifier"),
                (mask.sgid_index(), "no source identifier"),
                (mask.dest_qp_id(), "no peer"),
                (mask.path_mtu(), "no MTU"),
                (mask.rq_psn(), "no first packet number to expect"),
                (
                    mask.max_dest_rd_atomic() && command.max_dest_rd_atomic > 0,
                    "no slots for inbound reads",
                ),
            ];
            if let Some((_, why)) = needed.into_iter().find(|(there, _)| !there) {
                return Err(bad(why));
            }
            if gid.is_none() {
                return Err(bad("its source identifier is not in the table"));
            }
        }
        if reliable && sending {
            if !mask.sq_psn() || !mask.max_rd_atomic() || command.max_rd_atomic == 0 {
                return Err(bad("no first packet number, or no slots for outbound reads"));
            }
            if mask.dgid() || mask.path_mtu() || mask.dest_qp_id() || mask.rq_psn() {
                return Err(bad("attributes of the step before"));
            }
        }
        let core = &mut pair.core;
        core.attributes.update(command).map_err(|status| (status, "an MTU that there is not"))?;
        if mask.access() {
            core.access = Access {
                local_write: command.access.local_write(),
                remote_write: command.access.remote_write(),
                remote_read: command.access.remote_read(),
                remote_atomic: command.access.remote_atomic(),
            };
            if let Some(connection) = &mut pair.connection {
                connection.set_peer_access(core.access);
            }
        }
        if mask.min_rnr_timer()
            && let Some(connection) = &mut pair.connection
        {
            connection.set_rnr_timer(command.min_rnr_timer);
        }
        if let (true, true, Some(gid)) = (reliable, receiving, gid) {
            core.path = Some((Address::Gid(gid), Address::Gid(core.attributes.gid)));
            pair.connection = Some(receiver(core));
        }
        if reliable && sending {
            core.psn = Psn::new(core.attributes.first_psn);
            core.message = 0;
            let sending = sender(&core.attributes);
            if let Some(connection) = &mut pair.connection {
                connection.start_sending(sending);
            }
        }
        core.state = new;
        Ok(())
    }
}

fn receiver(core: &Core) -> Connection {
    let known = &core.attributes;
    Connection::new(rc::Attributes {
        peer: known.peer,
        partition_key: 0xffff,
        mtu: known.mtu.unwrap_or(Mtu::B1024),
        protection_domain: core.domain,
        peer_access: core.access,
        expected_psn: Psn::new(known.expected_psn),
        responder_resources: inbound_reads(known.inbound_slots),
        rnr_timer: known.rnr_timer & 0x1f,
        extended: false,
    })
}

fn sender(known: &Attributes) -> SendAttributes {
    SendAttributes {
        first_psn: Psn::new(known.first_psn),
        max_outstanding_reads: outbound_reads(known.outbound_slots),
        timeout: known.timeout & 0x1f,
        retry_count: known.retry_count & 7,
        rnr_retry: known.rnr_retry & 7,
        window: SEND_WINDOW,
        atomic_answers: ByteOrder::Native,
    }
}
