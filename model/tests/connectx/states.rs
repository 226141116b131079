//! States of a queue pair: what the kernel lets pass (`ib_modify_qp_is_ok`, `modify_qp`,
//! `mlx5_ib_modify_qp`).

use crate::client::*;
use crate::side::*;
use doorbell::mlx5::abi::verbs::qp::{ModifyQp, QpAttrMask, QpState, QueryQp, QueryQpResp};
use doorbell::mlx5::abi::verbs::write::WriteCommand;
use doorbell_hal::Errno;
use doorbell_model::connectx::Network;
use zerocopy::FromZeros;

const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::ReadyToReceive,
    QpState::ReadyToSend,
    QpState::SendQueueDrain,
    QpState::SendQueueError,
    QpState::Error,
];

fn side() -> Side {
    Side::new(&Network::stepped(0), &QueueOptions::default(), &PairOptions::default())
}

/// Brings a queue pair to a state.
fn bring(side: &Side, state: QpState) {
    let pair = side.pair.handle;
    side.client.to_state(pair, QpState::Reset).unwrap();
    if state == QpState::Reset {
        return;
    }
    side.client.to_init(pair, peer_rights()).unwrap();
    if state == QpState::Error {
        side.client.to_state(pair, QpState::Error).unwrap();
        return;
    }
    if state != QpState::Init {
        side.client.to_rtr(pair, 0x77, side.client.gid()).unwrap();
    }
    if state == QpState::ReadyToSend {
        side.client.to_rts(pair).unwrap();
    }
}

/// A change with every attribute that any change needs.
fn change(pair: u32, to: QpState, gid: [u8; 16]) -> ModifyQp {
    let mut request = rtr(pair, 0x77, gid);
    let send = rts(pair);
    request.attr_mask = QpAttrMask::new().with_state(true);
    request.qp_state = to.code();
    request.port_num = 1;
    request.qp_access_flags = peer_rights();
    (request.timeout, request.retry_cnt, request.rnr_retry) = (14, 7, 7);
    (request.sq_psn, request.max_rd_atomic) = (send.sq_psn, send.max_rd_atomic);
    request
}

/// The attributes that a change needs.
fn needs(from: QpState, to: QpState) -> QpAttrMask {
    let none = QpAttrMask::new().with_state(true);
    match (from, to) {
        (QpState::Reset, QpState::Init) => {
            none.with_pkey_index(true).with_port(true).with_access_flags(true)
        }
        (QpState::Init, QpState::ReadyToReceive) => rtr(0, 0, [0; 16]).attr_mask,
        (QpState::ReadyToReceive, QpState::ReadyToSend) => rts(0).attr_mask,
        _ => none,
    }
}

#[test]
fn only_the_changes_of_the_table_pass_with_just_the_attributes_they_need() {
    let side = side();
    let reachable = [
        QpState::Reset,
        QpState::Init,
        QpState::ReadyToReceive,
        QpState::ReadyToSend,
        QpState::Error,
    ];
    for from in reachable {
        for to in STATES {
            let passes = match (from, to) {
                (_, QpState::Reset) => true,
                (QpState::Reset, _) => to == QpState::Init,
                (_, QpState::Error) => true,
                (QpState::Init, QpState::Init | QpState::ReadyToReceive) => true,
                (QpState::ReadyToReceive, QpState::ReadyToSend) => true,
                (QpState::ReadyToSend, QpState::ReadyToSend) => true,
                _ => false,
            };
            bring(&side, from);
            let mut request = change(side.pair.handle, to, side.client.gid());
            request.attr_mask = needs(from, to);
            let expected = if passes { Ok(()) } else { Err(Errno::EINVAL) };
            assert_eq!(side.client.modify(&request), expected, "{from:?} to {to:?}");
            if !passes {
                continue;
            }
            // Each needed attribute taken away, and each other one added.
            for bit in 0..21 {
                let mask = u32::from(needs(from, to)) ^ 1 << bit;
                let needed = u32::from(needs(from, to)) & 1 << bit != 0;
                if bit == 0 || (!needed && is_optional(from, to, bit)) {
                    continue;
                }
                bring(&side, from);
                request.attr_mask = mask.into();
                let refused = side.client.modify(&request);
                assert_eq!(refused, Err(Errno::EINVAL), "{from:?} to {to:?}, bit {bit}");
            }
        }
    }
}

/// Whether the table lets a change carry an attribute that it does not need.
fn is_optional(from: QpState, to: QpState, bit: u32) -> bool {
    let optional = match (from, to) {
        (QpState::Init, QpState::Init) => {
            QpAttrMask::new().with_pkey_index(true).with_port(true).with_access_flags(true)
        }
        (QpState::Init, QpState::ReadyToReceive) => {
            QpAttrMask::new().with_access_flags(true).with_pkey_index(true)
        }
        (QpState::ReadyToReceive | QpState::ReadyToSend, QpState::ReadyToSend) => {
            // The state that the caller believes in: 0 here, which is refused, but as the state.
            QpAttrMask::new()
                .with_access_flags(true)
                .with_min_rnr_timer(true)
                .with_path_mig_state(true)
        }
        _ => QpAttrMask::new(),
    };
    u32::from(optional) & 1 << bit != 0
}

#[test]
fn values_outside_their_range_are_refused() {
    let side = side();
    let (pair, gid) = (side.pair.handle, side.client.gid());
    let refusal = |from: QpState, request: &dyn Fn() -> ModifyQp| {
        bring(&side, from);
        side.client.modify(&request()).err()
    };
    let receive = |change: &dyn Fn(&mut ModifyQp)| {
        refusal(QpState::Init, &|| {
            let mut request = rtr(pair, 0x77, gid);
            change(&mut request);
            request
        })
    };
    let send = |change: &dyn Fn(&mut ModifyQp)| {
        refusal(QpState::ReadyToReceive, &|| {
            let mut request = rts(pair);
            change(&mut request);
            request
        })
    };
    let invalid = Some(Errno::EINVAL);
    assert_eq!(receive(&|_| ()), None);
    assert_eq!(receive(&|r| r.path_mtu = 0), invalid);
    assert_eq!(receive(&|r| r.path_mtu = 6), invalid);
    assert_eq!(receive(&|r| r.max_dest_rd_atomic = 17), invalid);
    assert_eq!(receive(&|r| r.max_dest_rd_atomic = 0), None);
    assert_eq!(receive(&|r| r.dest.port_num = 0), invalid);
    assert_eq!(receive(&|r| r.dest.port_num = 2), invalid);
    assert_eq!(receive(&|r| r.dest.is_global = 0), invalid, "RoCE needs a global route");
    assert_eq!(receive(&|r| r.dest.sgid_index = 4), Some(Errno::ENODATA), "an empty entry");
    assert_eq!(receive(&|r| r.dest.sgid_index = 32), invalid, "past the table");
    assert_eq!(receive(&|r| r.dest.static_rate = 1), invalid);
    assert_eq!(receive(&|r| r.dest.static_rate = 2), None);
    assert_eq!(receive(&|r| r.dest.static_rate = 24), invalid);
    assert_eq!(receive(&|r| r.rq_psn = 0x123_4567), None, "PSNs are cut to 24 bits");
    assert_eq!(send(&|_| ()), None);
    assert_eq!(send(&|r| r.max_rd_atomic = 17), invalid);
    assert_eq!(
        send(&|r| r.attr_mask = (u32::from(r.attr_mask) | 1 << 21).into()),
        Some(Errno::EOPNOTSUPP)
    );
    let init = |change: &dyn Fn(&mut ModifyQp)| {
        refusal(QpState::Reset, &|| {
            let mut request = self::change(pair, QpState::Init, gid);
            request.attr_mask = needs(QpState::Reset, QpState::Init);
            change(&mut request);
            request
        })
    };
    assert_eq!(init(&|_| ()), None);
    assert_eq!(init(&|r| r.port_num = 2), invalid);
    assert_eq!(init(&|r| r.pkey_index = 1), invalid);
    assert_eq!(init(&|r| r.qp_state = 7), invalid);
    assert_eq!(init(&|r| r.qp_handle = 99), Some(Errno::ENOENT));
    assert_eq!(init(&|r| r.qp_handle = side.queue.handle), invalid, "no queue pair");
}

#[test]
fn a_query_tells_the_nics_state_and_what_was_set() {
    let side = side();
    let query = || {
        let request = QueryQp { qp_handle: side.pair.handle, ..QueryQp::new_zeroed() };
        let answer: QueryQpResp =
            side.client.invoke(WriteCommand::QueryQp, &request, &[], &mut []).unwrap();
        answer
    };
    for state in [QpState::Reset, QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend] {
        bring(&side, state);
        assert_eq!(query().qp_state, state.code());
    }
    let answer = query();
    assert_eq!((answer.dest_qp_num, answer.path_mtu, answer.port_num), (0x77, 3, 1));
    assert_eq!((answer.sq_psn, answer.rq_psn), (0xff_fffe, 0xff_fffe));
    assert_eq!((answer.max_send_wr, answer.max_recv_wr), (16, 8));
    assert_eq!(answer.qp_access_flags, peer_rights());
}

#[test]
fn the_kernel_believes_in_ready_to_send_until_it_asks() {
    // `qp->state` is the kernel's copy; the NIC went to error by itself.
    let (network, mut a, b) = connected(3);
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), 0xbad);
    a.pair.post(&entry);
    settle(&network);
    let again = ModifyQp {
        qp_handle: a.pair.handle,
        attr_mask: QpAttrMask::new().with_state(true),
        qp_state: QpState::ReadyToSend.code(),
        ..ModifyQp::new_zeroed()
    };
    assert_eq!(a.client.modify(&again), Err(Errno::EINVAL), "the NIC refuses");
    a.client.to_state(a.pair.handle, QpState::Error).unwrap();
    a.client.to_state(a.pair.handle, QpState::Reset).unwrap();
}
