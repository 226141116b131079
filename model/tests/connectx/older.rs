//! The older commands, as older libraries make objects: through `INVOKE_WRITE`, with register
//! pages that come with the context and completions of version 0.

use crate::client::*;
use crate::side::*;
use doorbell::mlx5::abi::driver::{self, AllocUcontextReqV2, LibCaps};
use doorbell::mlx5::abi::uar;
use doorbell::mlx5::abi::verbs::qp::{self, QpState, QpType};
use doorbell::mlx5::abi::verbs::write::{self, WriteCommand};
use doorbell_hal::Errno;
use doorbell_hal::mmio::RegisterPage;
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::connectx::Network;
use zerocopy::{FromZeros, IntoBytes};

/// A client whose context has 8 send registers, in 4 pages.
fn client(network: &Network) -> Client {
    let client = Client::without_context(network);
    let request = AllocUcontextReqV2 {
        total_num_bfregs: 8,
        lib_caps: LibCaps::new().with_uar_4k(true),
        ..AllocUcontextReqV2::new_zeroed()
    };
    assert_eq!(client.get_context(&request).unwrap().tot_bfregs, 8);
    client
}

fn queue_request(memory: u64) -> driver::CreateCq {
    driver::CreateCq {
        buf_addr: memory,
        db_addr: memory + 4096,
        cqe_size: 64,
        ..driver::CreateCq::new_zeroed()
    }
}

fn pair_request(memory: u64) -> driver::CreateQp {
    driver::CreateQp {
        buf_addr: memory,
        db_addr: memory + 4096,
        sq_wqe_count: 16,
        rq_wqe_count: 8,
        rq_wqe_shift: 6,
        uidx: 0xff_ffff,
        ..driver::CreateQp::new_zeroed()
    }
}

#[test]
fn completion_queues_are_made_and_destroyed() {
    let client = client(&Network::stepped(0));
    let memory = client.memory(8192);
    let driver = queue_request(address(&memory));
    let request = write::CreateCq { cqe: 20, comp_channel: -1, ..write::CreateCq::new_zeroed() };
    let mut number = [0; 4];
    let made: write::CreateCqResp =
        client.invoke(WriteCommand::CreateCq, &request, driver.as_bytes(), &mut number).unwrap();
    assert_eq!(made.cqe, 31);
    let extended = write::ExCreateCq {
        cqe: 20,
        comp_channel: -1,
        flags: 2,
        ..write::ExCreateCq::new_zeroed()
    };
    let again: write::ExCreateCqResp =
        client.invoke(WriteCommand::ExCreateCq, &extended, driver.as_bytes(), &mut number).unwrap();
    assert_eq!((again.base.cqe, again.response_length), (31, 16));
    let refused = |change: fn(&mut write::ExCreateCq)| {
        let mut request = extended;
        change(&mut request);
        let mut number = [0; 4];
        client
            .invoke::<write::ExCreateCqResp>(
                WriteCommand::ExCreateCq,
                &request,
                driver.as_bytes(),
                &mut number,
            )
            .err()
    };
    assert_eq!(refused(|r| r.comp_mask = 1), Some(Errno::EINVAL));
    assert_eq!(refused(|r| r.reserved = 1), Some(Errno::EINVAL));
    assert_eq!(refused(|r| r.flags = 4), Some(Errno::EOPNOTSUPP));
    assert_eq!(refused(|r| r.comp_channel = 0), Some(Errno::EBADF));
    assert_eq!(refused(|r| r.comp_vector = 2), Some(Errno::EINVAL));
    for handle in [made.cq_handle, again.base.cq_handle] {
        let request = write::DestroyCq { cq_handle: handle, ..write::DestroyCq::new_zeroed() };
        let destroy = || {
            client.invoke::<write::DestroyCqResp>(WriteCommand::DestroyCq, &request, &[], &mut [])
        };
        destroy().unwrap();
        assert_eq!(destroy().err(), Some(Errno::ENOENT));
    }
}

/// A queue pair by either command: its handle, number and send register.
fn make_pair(
    client: &Client,
    domain: u32,
    cq: u32,
    memory: u64,
    extended: bool,
) -> (u32, u32, u32) {
    let driver = pair_request(memory);
    let mut answer = driver::CreateQpResp::new_zeroed();
    let kind = QpType::ReliableConnected.code();
    let (handle, number) = if extended {
        let request = qp::ExCreateQp {
            pd_handle: domain,
            send_cq_handle: cq,
            recv_cq_handle: cq,
            max_send_wr: 16,
            max_recv_wr: 8,
            qp_type: kind,
            ..qp::ExCreateQp::new_zeroed()
        };
        let made: qp::ExCreateQpResp = client
            .invoke(WriteCommand::ExCreateQp, &request, driver.as_bytes(), answer.as_mut_bytes())
            .unwrap();
        assert_eq!(made.response_length, 40);
        (made.base.qp_handle, made.base.qpn)
    } else {
        let request = qp::CreateQp {
            pd_handle: domain,
            send_cq_handle: cq,
            recv_cq_handle: cq,
            max_send_wr: 16,
            max_recv_wr: 8,
            qp_type: kind,
            ..qp::CreateQp::new_zeroed()
        };
        let made: qp::CreateQpResp = client
            .invoke(WriteCommand::CreateQp, &request, driver.as_bytes(), answer.as_mut_bytes())
            .unwrap();
        (made.qp_handle, made.qpn)
    };
    (handle, number, answer.bfreg_index)
}

#[test]
fn queue_pairs_get_registers_of_the_contexts_pages_and_ring_there() {
    for extended in [false, true] {
        let network = Network::stepped(1);
        let client = client(&network);
        let domain = client.domain();
        let memory = client.memory(8192);
        let cq: write::CreateCqResp = client
            .invoke(
                WriteCommand::CreateCq,
                &write::CreateCq { cqe: 20, comp_channel: -1, ..write::CreateCq::new_zeroed() },
                queue_request(address(&memory)).as_bytes(),
                &mut [0; 4],
            )
            .unwrap();
        let rings = [client.memory(8192), client.memory(8192)];
        let pairs = [0, 1].map(|at: usize| {
            make_pair(&client, domain, cq.cq_handle, address(&rings[at]), extended)
        });
        // Registers count 4 in a page, of which processes use 2: the second of the first page, then
        // the first of the second page.
        assert_eq!(pairs.map(|(_, _, register)| register), [1, 4]);
        for (this, peer) in [(0, 1), (1, 0)] {
            client.to_init(pairs[this].0, peer_rights()).unwrap();
            client.to_rtr(pairs[this].0, pairs[peer].1, client.gid()).unwrap();
            client.to_rts(pairs[this].0).unwrap();
        }
        let region = client.memory(4096);
        let key = client.region(domain, &region, all_rights());
        store(&region, 0, &[5; 16]);
        // A pair of rings by hand, at the register that the kernel chose.
        let register = pairs[1].2;
        let page = client.file.map(u64::from(register / 4) * 4096, 4096).unwrap();
        let at = uar::SEND_OFFSET + (register % 4) as usize * uar::SEND_REGISTER_BYTES;
        let [_, ring] = rings;
        let mut pair = Pair::by_hand(
            pairs[1].0,
            pairs[1].1,
            std::sync::Arc::new(ring),
            page.register(at, uar::SEND_REGISTER_BYTES).unwrap(),
            [8, 64, 16],
            4096,
        );
        let piece = doorbell::mlx5::abi::wqe::DataSegment::new(address(&region), key, 16);
        let entry = pair.write_entry(piece, address(&region) + 64, key);
        pair.post(&entry);
        settle(&network);
        assert_eq!(load(&region, 64, 16), [5; 16]);
        let completion = load(&memory, 0, 64);
        assert_eq!(completion[33..36], [0xff; 3], "no user index in version 0");
        assert_eq!(completion[57..60], pairs[1].1.to_be_bytes()[1..], "the number instead");
        for (handle, ..) in pairs {
            let request = qp::DestroyQp { qp_handle: handle, ..qp::DestroyQp::new_zeroed() };
            let _: qp::DestroyQpResp =
                client.invoke(WriteCommand::DestroyQp, &request, &[], &mut []).unwrap();
        }
        drop(client);
    }
}

#[test]
fn kinds_of_queue_pairs_that_the_device_does_not_make_are_refused() {
    let client = client(&Network::stepped(2));
    let refused = |kind: u8, is_srq: u8| {
        let request = qp::CreateQp { qp_type: kind, is_srq, ..qp::CreateQp::new_zeroed() };
        client.invoke::<qp::CreateQpResp>(WriteCommand::CreateQp, &request, &[0; 56], &mut []).err()
    };
    assert_eq!(refused(8, 0), Some(Errno::EPERM), "raw packets, without CAP_NET_RAW");
    assert_eq!(refused(4, 0), Some(Errno::EOPNOTSUPP), "datagrams");
    assert_eq!(refused(9, 0), Some(Errno::EOPNOTSUPP), "extended connections");
    assert_eq!(refused(7, 0), Some(Errno::EINVAL));
    assert_eq!(refused(2, 1), Some(Errno::EINVAL), "a shared receive queue that is not there");
    assert_eq!(refused(2, 0), Some(Errno::ENOENT), "no domain");
}

#[test]
fn domains_and_regions_go_by_command_too() {
    let client = client(&Network::stepped(3));
    let domain = client.domain();
    let memory = client.memory(4096);
    client.region(domain, &memory, all_rights());
    let free = || {
        let request = write::DeallocPd { pd_handle: domain };
        client.invoke::<[u8; 0]>(WriteCommand::DeallocPd, &request, &[], &mut []).err()
    };
    assert_eq!(free(), Some(Errno::EBUSY));
    let request = write::DeregMr { mr_handle: domain };
    let wrong = client.invoke::<[u8; 0]>(WriteCommand::DeregMr, &request, &[], &mut []).err();
    assert_eq!(wrong, Some(Errno::EINVAL), "a domain is no region");
    let request = write::DeregMr { mr_handle: domain + 1 };
    client.invoke::<[u8; 0]>(WriteCommand::DeregMr, &request, &[], &mut []).unwrap();
    assert_eq!(free(), None);
}

#[test]
fn the_extended_change_of_state_answers_its_length() {
    let side = Side::new(&Network::stepped(4), &QueueOptions::default(), &PairOptions::default());
    side.client.to_init(side.pair.handle, peer_rights()).unwrap();
    let base = rtr(side.pair.handle, 0x55, side.client.gid());
    let request = qp::ExModifyQp { base, rate_limit: 0, reserved: 0 };
    let driver = driver::ModifyQp::new_zeroed();
    let mut driver_answer = driver::ModifyQpResp::new_zeroed();
    let answer: qp::ExModifyQpResp = side
        .client
        .invoke(WriteCommand::ExModifyQp, &request, driver.as_bytes(), driver_answer.as_mut_bytes())
        .unwrap();
    assert_eq!((answer.response_length, driver_answer.response_length), (8, 16));
    let refused = |change: fn(&mut driver::ModifyQp)| {
        let mut driver = driver;
        change(&mut driver);
        let request = rts(side.pair.handle);
        side.client
            .invoke::<[u8; 0]>(WriteCommand::ModifyQp, &request, driver.as_bytes(), &mut [])
            .err()
    };
    assert_eq!(refused(|d| d.comp_mask = 1), Some(Errno::EOPNOTSUPP));
    assert_eq!(refused(|d| d.burst_info.reserved = 1), Some(Errno::EOPNOTSUPP));
    assert_eq!(refused(|_| ()), None);
    side.client.to_state(side.pair.handle, QpState::Error).unwrap();
}
