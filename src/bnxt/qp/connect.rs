//! From one state to the next.

use super::{Pair, QueuePair};
use crate::bnxt::abi::command::ModifyQueuePair;
use crate::bnxt::abi::field::{
    ModifyMask, NetworkKind, PathMtuByte, QueuePairAccess, QueuePairKind, QueuePairState, StateByte,
};
use crate::bnxt::context::MTU;
use crate::connection::{Connection, PeerRights};
use crate::endpoint::{Endpoint, LinkLayer, Mtu, is_ipv4};
use crate::error::{Error, Refused};
use crate::state::{Init, Reset, Rtr, Rts, State};
use doorbell_hal::pci::PciFunction;
use zerocopy::FromZeros;

/// The default partition, as firmware takes it.
const PARTITION: u16 = 0xffff;

fn modify<F: PciFunction>(
    pair: &Pair<F>,
    state: QueuePairState,
    mask: ModifyMask,
    mut command: ModifyQueuePair,
) -> Result<(), Error> {
    command.header.reserved8 = QueuePairKind::ReliableConnected.code();
    command.modify_mask = mask.with_state(true);
    command.qp_cid = pair.number.get().into();
    command.network_type_en_sqd_async_notify_new_state =
        StateByte::of(state, NetworkKind::RoceV2Ipv4);
    pair.context.command(command, &mut []).map(drop)
}

fn to_init<F: PciFunction>(pair: &Pair<F>, rights: PeerRights) -> Result<(), Error> {
    let mask = ModifyMask::new().with_access(true).with_pkey(true);
    let command = ModifyQueuePair {
        access: QueuePairAccess::new()
            .with_local_write(true)
            .with_remote_write(rights.contains(PeerRights::WRITE))
            .with_remote_read(rights.contains(PeerRights::READ))
            .with_remote_atomic(rights.contains(PeerRights::ATOMIC)),
        pkey: PARTITION.into(),
        ..FromZeros::new_zeroed()
    };
    modify(pair, QueuePairState::Init, mask, command)
}

/// The MTU of the path to `peer`.
fn path_mtu(peer: &Endpoint, connection: &Connection) -> Mtu {
    MTU.min(peer.mtu()).min(connection.max_mtu.unwrap_or(MTU))
}

fn to_rtr<F: PciFunction>(
    pair: &Pair<F>,
    peer: &Endpoint,
    connection: &Connection,
) -> Result<(), Error> {
    connection.check()?;
    if peer.link() != LinkLayer::Ethernet {
        let why = "one port is Ethernet, the other InfiniBand";
        return Err(Error::Unreachable { why });
    }
    if !is_ipv4(&peer.gid()) {
        let why = "one global identifier is an IPv4 address, the other is not";
        return Err(Error::Unreachable { why });
    }
    let Some(mac) = peer.mac() else {
        let why = "the peer's endpoint does not say its Ethernet address";
        return Err(Error::Unreachable { why });
    };
    let mask = ModifyMask::new()
        .with_dgid(true)
        .with_flow_label(true)
        // Firmware wants it together with the peer's.
        .with_sgid_index(true)
        .with_hop_limit(true)
        .with_traffic_class(true)
        .with_dest_mac(true)
        .with_vlan_id(true)
        .with_path_mtu(true)
        .with_rq_psn(true)
        .with_max_dest_rd_atomic(true)
        .with_min_rnr_timer(true)
        .with_dest_qp_id(true);
    let command = ModifyQueuePair {
        dgid: peer.gid(),
        sgid_index: pair.context.facts.gid_index.into(),
        hop_limit: connection.hop_limit,
        traffic_class: connection.traffic_class,
        dest_mac: mac,
        // Firmware counts from 0, the specification from 1.
        path_mtu_pingpong_push_enable: PathMtuByte::new()
            .with_mtu(path_mtu(peer, connection) as u8 - 1),
        rq_psn: peer.packet_sequence().into(),
        max_dest_rd_atomic: inbound_slots(pair.read_depth),
        min_rnr_timer: connection.rnr_timer.code(),
        dest_qp_id: peer.queue_pair().into(),
        ..FromZeros::new_zeroed()
    };
    modify(pair, QueuePairState::ReadyToReceive, mask, command)
}

/// Slots of the table of inbound reads and atomics, for `depth` at once. A depth is at most 126.
pub(super) const fn inbound_slots(depth: u8) -> u8 {
    // Firmware takes no table of none.
    let depth = if depth == 0 { 1 } else { depth };
    2 * depth + 2
}

/// Slots of the table of outbound reads and atomics, for `depth` at once.
pub(super) const fn outbound_slots(depth: u8) -> u8 {
    depth + 1
}

fn to_rts<F: PciFunction>(
    pair: &Pair<F>,
    packet_sequence: u32,
    peer_read_depth: u8,
    connection: &Connection,
) -> Result<(), Error> {
    connection.check()?;
    let mask = ModifyMask::new()
        .with_timeout(true)
        .with_retry_cnt(true)
        .with_rnr_retry(true)
        .with_sq_psn(true)
        .with_max_rd_atomic(true);
    // More than the peer answers at once would fail.
    let depth = pair.context.facts.limits.initiator_depth.min(peer_read_depth);
    let command = ModifyQueuePair {
        timeout: connection.ack_timeout.code(),
        retry_cnt: connection.retries,
        rnr_retry: connection.rnr_retries,
        sq_psn: packet_sequence.into(),
        max_rd_atomic: outbound_slots(depth),
        ..FromZeros::new_zeroed()
    };
    modify(pair, QueuePairState::ReadyToSend, mask, command)
}

pub(super) fn to_error<F: PciFunction>(pair: &Pair<F>) -> Result<(), Error> {
    let command = ModifyQueuePair::new_zeroed();
    modify(pair, QueuePairState::Error, ModifyMask::new(), command)
}

pub(super) fn to_reset<F: PciFunction>(pair: &Pair<F>) -> Result<(), Error> {
    let command = ModifyQueuePair::new_zeroed();
    modify(pair, QueuePairState::Reset, ModifyMask::new(), command)
}

impl<F: PciFunction> QueuePair<Reset, F> {
    /// Says what the peer may do through the queue pair. Receives can be posted from here on.
    pub fn init(self, rights: PeerRights) -> Result<QueuePair<Init, F>, Refused<Self>> {
        match to_init(self.pair(), rights) {
            Ok(()) => Ok(self.into_state()),
            Err(error) => Err(Refused { object: self, error }),
        }
    }

    /// All the way to a queue pair that sends: [`init`](Self::init), then ready to receive, then
    /// ready to send. If a step is refused, the queue pair is reset and given back.
    pub fn connect(
        self,
        rights: PeerRights,
        peer: &Endpoint,
        connection: &Connection,
    ) -> Result<QueuePair<Rts, F>, Refused<Self>> {
        // A queue pair that the firmware will not even reset is good for being destroyed.
        fn back<S: State, F: PciFunction>(
            refused: Refused<QueuePair<S, F>>,
        ) -> Refused<QueuePair<Reset, F>> {
            let _ = to_reset(refused.object.pair());
            Refused { object: refused.object.into_state(), error: refused.error }
        }
        let init = self.init(rights)?;
        let rtr = init.ready_to_receive(peer, connection).map_err(back)?;
        rtr.ready_to_send(connection).map_err(back)
    }
}

impl<F: PciFunction> QueuePair<Init, F> {
    /// Connects to `peer`, whose requests arrive from here on.
    pub fn ready_to_receive(
        mut self,
        peer: &Endpoint,
        connection: &Connection,
    ) -> Result<QueuePair<Rtr, F>, Refused<Self>> {
        match to_rtr(self.pair(), peer, connection) {
            Ok(()) => {
                self.send.peer = Some(*peer);
                let log2_mtu = path_mtu(peer, connection).bytes().ilog2();
                self.send.ring.connect(self.send.packet_sequence, log2_mtu);
                Ok(self.into_state())
            }
            Err(error) => Err(Refused { object: self, error }),
        }
    }
}

impl<F: PciFunction> QueuePair<Rtr, F> {
    /// Makes the queue pair send, too.
    pub fn ready_to_send(
        self,
        connection: &Connection,
    ) -> Result<QueuePair<Rts, F>, Refused<Self>> {
        let read_depth = self.send.peer.map_or(0, |peer| peer.read_depth());
        match to_rts(self.pair(), self.send.packet_sequence, read_depth, connection) {
            Ok(()) => Ok(self.into_state()),
            Err(error) => Err(Refused { object: self, error }),
        }
    }
}
