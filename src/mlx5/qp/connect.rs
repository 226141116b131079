//! From one state to the next.

use super::{Pair, QueuePair};
use crate::connection::{Connection, PeerRights};
use crate::endpoint::{Endpoint, LinkLayer, Mtu, is_ipv4};
use crate::error::{Error, Refused};
use crate::mlx5::abi::verbs::AccessFlags;
use crate::mlx5::abi::verbs::qp::{ModifyQp, QpAttrMask, QpDest, QpState};
use crate::mlx5::abi::verbs::write::WriteCommand;
use crate::mlx5::call::Call;
use crate::state::{Init, Reset, Rtr, Rts};
use doorbell_hal::mmio::Caching;
use doorbell_hal::uverbs::Uverbs;
use zerocopy::FromZeros;

fn access_flags(rights: PeerRights) -> AccessFlags {
    AccessFlags::new()
        .with_remote_write(rights.contains(PeerRights::WRITE))
        .with_remote_read(rights.contains(PeerRights::READ))
        .with_remote_atomic(rights.contains(PeerRights::ATOMIC))
}

/// The index of the default partition, and the only port.
const PARTITION: u16 = 0;
const PORT: u8 = 1;

fn modify<V: Uverbs>(
    pair: &Pair<V>,
    name: &'static str,
    state: QpState,
    mask: QpAttrMask,
    attributes: ModifyQp,
) -> Result<(), Error> {
    let request = ModifyQp {
        qp_handle: pair.handle,
        attr_mask: mask.with_state(true),
        qp_state: state.code(),
        ..attributes
    };
    let call = Call::write_only(name, WriteCommand::ModifyQp, &request);
    // SAFETY: K2: the call hands no memory to the device.
    unsafe { call.make(&pair.context.verbs) }.map(drop)
}

fn to_init<V: Uverbs>(pair: &Pair<V>, rights: PeerRights) -> Result<(), Error> {
    let mask = QpAttrMask::new().with_pkey_index(true).with_port(true).with_access_flags(true);
    let attributes = ModifyQp {
        pkey_index: PARTITION,
        port_num: PORT,
        qp_access_flags: access_flags(rights),
        ..FromZeros::new_zeroed()
    };
    modify(pair, "MODIFY_QP to Init", QpState::Init, mask, attributes)
}

fn to_rtr<V: Uverbs>(
    pair: &Pair<V>,
    peer: &Endpoint,
    connection: &Connection,
) -> Result<(), Error> {
    connection.check()?;
    let port = &pair.context.port;
    if peer.link != port.link {
        let why = "one port is Ethernet, the other InfiniBand";
        return Err(Error::Unreachable { why });
    }
    if port.link == LinkLayer::Ethernet && is_ipv4(&peer.gid) != is_ipv4(&port.gid) {
        let why = "one global identifier is an IPv4 address, the other is not";
        return Err(Error::Unreachable { why });
    }
    let mtu = port.mtu.min(peer.mtu).min(connection.max_mtu.unwrap_or(Mtu::B4096));
    let mask = QpAttrMask::new()
        .with_av(true)
        .with_path_mtu(true)
        .with_dest_qpn(true)
        .with_rq_psn(true)
        .with_max_dest_rd_atomic(true)
        .with_min_rnr_timer(true);
    let attributes = ModifyQp {
        dest: QpDest {
            dgid: peer.gid,
            dlid: peer.lid(),
            sgid_index: port.gid_index,
            hop_limit: connection.hop_limit,
            traffic_class: connection.traffic_class,
            sl: connection.service_level,
            // On InfiniBand, a local identifier is enough within a subnet.
            is_global: (port.link == LinkLayer::Ethernet).into(),
            port_num: PORT,
            ..FromZeros::new_zeroed()
        },
        path_mtu: mtu as u8,
        dest_qp_num: peer.queue_pair,
        rq_psn: peer.packet_sequence,
        max_dest_rd_atomic: pair.read_depth,
        min_rnr_timer: connection.rnr_timer.code(),
        ..FromZeros::new_zeroed()
    };
    modify(pair, "MODIFY_QP to Rtr", QpState::ReadyToReceive, mask, attributes)
}

fn to_rts<V: Uverbs>(
    pair: &Pair<V>,
    packet_sequence: u32,
    peer_read_depth: u8,
    connection: &Connection,
) -> Result<(), Error> {
    connection.check()?;
    let mask = QpAttrMask::new()
        .with_timeout(true)
        .with_retry_cnt(true)
        .with_rnr_retry(true)
        .with_sq_psn(true)
        .with_max_rd_atomic(true);
    let attributes = ModifyQp {
        timeout: connection.ack_timeout.code(),
        retry_cnt: connection.retries,
        rnr_retry: connection.rnr_retries,
        sq_psn: packet_sequence,
        // More than the peer answers at once would fail.
        max_rd_atomic: pair.context.limits.initiator_depth.min(peer_read_depth),
        ..FromZeros::new_zeroed()
    };
    modify(pair, "MODIFY_QP to Rts", QpState::ReadyToSend, mask, attributes)
}

pub(super) fn to_error<V: Uverbs>(pair: &Pair<V>) -> Result<(), Error> {
    let attributes = ModifyQp::new_zeroed();
    modify(pair, "MODIFY_QP to Error", QpState::Error, QpAttrMask::new(), attributes)
}

pub(super) fn to_reset<V: Uverbs>(pair: &Pair<V>) -> Result<(), Error> {
    let attributes = ModifyQp::new_zeroed();
    modify(pair, "MODIFY_QP to Reset", QpState::Reset, QpAttrMask::new(), attributes)
}

impl<V: Uverbs, C: Caching> QueuePair<Reset, V, C> {
    /// Says what the peer may do through the queue pair. Receives can be posted from here on.
    pub fn init(self, rights: PeerRights) -> Result<QueuePair<Init, V, C>, Refused<Self>> {
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
    ) -> Result<QueuePair<Rts, V, C>, Refused<Self>> {
        // A queue pair that the kernel will not even reset is good for being destroyed.
        fn back<S: crate::state::State, V: Uverbs, C: Caching>(
            refused: Refused<QueuePair<S, V, C>>,
        ) -> Refused<QueuePair<Reset, V, C>> {
            let _ = to_reset(refused.object.pair());
            Refused { object: refused.object.into_state(), error: refused.error }
        }
        let init = self.init(rights)?;
        let rtr = init.ready_to_receive(peer, connection).map_err(back)?;
        rtr.ready_to_send(connection).map_err(back)
    }
}

impl<V: Uverbs, C: Caching> QueuePair<Init, V, C> {
    /// Connects to `peer`, whose requests arrive from here on.
    pub fn ready_to_receive(
        mut self,
        peer: &Endpoint,
        connection: &Connection,
    ) -> Result<QueuePair<Rtr, V, C>, Refused<Self>> {
        match to_rtr(self.pair(), peer, connection) {
            Ok(()) => {
                self.send.peer = Some(*peer);
                Ok(self.into_state())
            }
            Err(error) => Err(Refused { object: self, error }),
        }
    }
}

impl<V: Uverbs, C: Caching> QueuePair<Rtr, V, C> {
    /// Makes the queue pair send, too.
    pub fn ready_to_send(
        self,
        connection: &Connection,
    ) -> Result<QueuePair<Rts, V, C>, Refused<Self>> {
        let read_depth = self.send.peer.map_or(0, |peer| peer.read_depth);
        match to_rts(self.pair(), self.send.packet_sequence, read_depth, connection) {
            Ok(()) => Ok(self.into_state()),
            Err(error) => Err(Refused { object: self, error }),
        }
    }
}
