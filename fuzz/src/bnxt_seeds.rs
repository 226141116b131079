//! The inputs that fuzzing of the BCM57608 began with: see `seeds`.

use crate::netxtreme_firmware::{ARENA, FREE, Machine, Started, kind, small_machine};
use crate::seeds::{Seed, write};
use doorbell::bnxt::abi::command::{
    Command, CommandHeader, CreateCompletionQueue, CreateQueuePair, CreateSharedReceiveQueue,
    DestroyCompletionQueue, DestroyQueuePair, ModifyQueuePair, QueryFunction, QueryQueuePair,
    RegisterRegion,
};
use doorbell::bnxt::abi::doorbell::{Doorbell, Position, QueueNumber, Toggle};
use doorbell::bnxt::abi::field::{
    ModifyMask, NetworkKind, QueuePages, QueuePairAccess, QueuePairFlags, QueuePairKind,
    QueuePairState, RegionAccess, RegionPages, StateByte,
};
use doorbell::bnxt::abi::firmware::Request;
use doorbell::bnxt::abi::firmware::function::{
    FuncCfgRequest, FuncDrvUnrgtrRequest, FuncQcapsRequest, FuncQcfgRequest, FuncResetRequest,
};
use doorbell::bnxt::abi::firmware::ring::{RingFreeRequest, ring_type};
use doorbell::bnxt::abi::firmware::version::VerGetRequest;
use zerocopy::{FromZeros, Immutable};

/// A completion queue's world: 4 slots, one queue pair that completes here.
fn world(seed: Seed) -> Seed {
    seed.bytes(&[1, 0, 0, 84, 7, 1, 1, 0, 0, 0, 0, 12])
}

#[test]
#[ignore = "writes the corpus"]
fn bnxt_completion() {
    // Calls of queue pair 0.
    let send =
        |seed: Seed, id: u64, kind: u8| seed.bytes(&[0, 0]).double(id).bytes(&[3, 1, 2, 3, kind]);
    let receive = |seed: Seed, id: u64| seed.bytes(&[2, 0]).double(id).bytes(&[1, 9]);
    let done = |seed: Seed, count: u8, status: u8| seed.bytes(&[6, 0, 0, status, count]);
    let filled = |seed: Seed, flags: u8, status: u8| {
        seed.bytes(&[6, 0, 2, status, 0]).double(0x7_0000_0032).bytes(&[flags])
    };
    let posted = |count: u64| {
        let seed = (0..count).fold(world(Seed::default()), |seed, id| {
            receive(send(seed, id, [3, 1, 0, 5][id as usize % 4]), id + 50)
        });
        seed.bytes(&[3, 0])
    };
    let mut seeds = Vec::new();
    // One after the other; several at once; failures of each kind; each arrival.
    seeds.push((0..40).fold(world(Seed::default()), |seed, id| {
        done(send(seed, id, 3).bytes(&[3, 0]), 1, 0).bytes(&[8, 8])
    }));
    seeds.push(done(done(posted(6), 3, 0), 3, 0).bytes(&[11]));
    seeds.extend((0xc0..0xd0).map(|status| done(posted(6), 2, status).bytes(&[8, 8, 8, 11])));
    seeds.extend((0..16).map(|flags| filled(posted(6), flags, 0).bytes(&[11])));
    seeds.extend((0xc0..0xd0).map(|status| filled(posted(6), 0, status).bytes(&[8, 11])));
    // The queue pair has failed; is gone; completions are cut off.
    seeds.push(posted(6).bytes(&[6, 0, 3, 0, 0, 11, 10, 1, 0]).double(9).bytes(&[0, 3, 3, 0, 11]));
    seeds.push(done(posted(6), 3, 0).bytes(&[8, 9, 0, 11, 10]));
    seeds.push((0..12u8).fold(posted(6), |seed, number| {
        seed.bytes(&[4, number]).bytes(&[number.wrapping_mul(37); 32]).bytes(&[8])
    }));
    write("bnxt_completion", seeds);
}

#[test]
#[ignore = "writes the corpus"]
fn bnxt_answers() {
    // What is called once the NIC is open, with nothing changed: a region, completion queues, queue
    // pairs, connected, posting, polling, failing, resetting, destroyed.
    let calls: &[&[u8]] = &[
        &[1, 0, 0x40],
        &[0, 64],
        &[2, 16, 16, 1, 0, 0, 0],
        &[3, 0],
        &[4, 0, 0, 0, 0, 0, 1, 3, 3, 3, 0, 1],
        &[11],
        &[6],
        &[7, 0, 1],
        &[8],
        &[9, 0],
        &[6],
        &[9, 0],
        &[3, 0],
        &[10, 0, 0],
        &[10, 1, 0],
        &[10, 2, 0],
    ];
    let open = || Seed::default().bytes(&[0, 0]);
    let meddled =
        |decision: &[u8]| calls.iter().fold(open(), |seed, call| seed.bytes(call).bytes(decision));
    let mut seeds = vec![meddled(&[]), meddled(&[0]), meddled(&[0, 0])];
    // Each way to change an answer, early and late; and of those of an open.
    for decision in 0xc0..0xd0u8 {
        let argument = [decision, decision, 3, 1, 2, 3, 4];
        seeds.push(meddled(&argument[..1 + usize::from(decision % 7)]));
        let late = calls[..6].iter().fold(open(), |seed, call| seed.bytes(call).bytes(&[0]));
        seeds.push(late.bytes(&argument).bytes(calls[9]).bytes(&argument).bytes(&[8, 6]));
        for before in [0, 3, 8, 14, 20, 24, 28] {
            let seed = Seed::default().bytes(&[0, 1]).bytes(&vec![0; before]);
            seeds.push(seed.bytes(&argument));
        }
    }
    write("bnxt_answers", seeds);
}

/// A conversation with a machine, which goes on while it is written down.
struct Talk {
    _started: Started,
    machine: Machine,
    seed: Seed,
}

/// Places in the arena, each with room.
const RINGS: usize = FREE + 0x1_0000;

impl Talk {
    fn new() -> Self {
        let (started, machine) = small_machine();
        Talk { _started: started, machine, seed: Seed::default() }
    }

    /// A command, whose words at these offsets are places in the arena. Answers the number of its object.
    fn command<C: Command + Immutable>(&mut self, mut command: C, places: &[usize]) -> u32 {
        command.header().opcode = C::OPCODE.code();
        let which = places.iter().fold(0u32, |which, at| which | 1 << (at / 8));
        let bytes = command.as_bytes();
        let seed = std::mem::take(&mut self.seed);
        let seed = seed.bytes(&[kind::COMMAND]).bytes(&which.to_le_bytes());
        self.seed = seed.half(bytes.len() as u16).bytes(bytes);
        let bytes = self.machine.placed(bytes.to_vec(), which);
        self.machine.command(&bytes);
        let (status, number) = self.machine.last_event();
        assert_eq!(status, 0, "{:?} was refused: {:?}", C::OPCODE, self.machine.log());
        number
    }

    fn request<R: Request>(&mut self, request: R) {
        let bytes = request.as_bytes();
        let seed = std::mem::take(&mut self.seed).bytes(&[kind::REQUEST]).bytes(&[0; 4]);
        self.seed = seed.bytes(&[bytes.len() as u8]).bytes(bytes);
        self.machine.request(bytes);
    }

    /// Bytes into the arena, whose words at these offsets are places in it.
    fn memory(&mut self, at: usize, bytes: &[u8], places: &[usize]) {
        let which = places.iter().fold(0u32, |which, at| which | 1 << (at / 8));
        let seed = std::mem::take(&mut self.seed).bytes(&[kind::MEMORY]);
        let seed = seed.bytes(&((at - FREE) as u32).to_le_bytes()).bytes(&which.to_le_bytes());
        self.seed = seed.bytes(&[bytes.len() as u8]).bytes(bytes);
        let bytes = self.machine.placed(bytes.to_vec(), which);
        self.machine.write(at, &bytes);
    }

    /// A doorbell at the page of doorbell page number 0.
    fn doorbell(&mut self, word: u64) {
        let seed = std::mem::take(&mut self.seed).bytes(&[kind::DOORBELL]).half(16);
        self.seed = seed.bytes(&[0]).double(word);
        self.machine.doorbell(16, 0, word);
    }

    fn step(&mut self) {
        self.seed = std::mem::take(&mut self.seed).bytes(&[kind::STEP]);
        self.machine.step();
    }

    /// A region over the arena, a completion queue, and a queue pair that is connected to itself:
    /// key, completion queue, queue pair.
    fn connected(&mut self) -> (u32, u32, u32) {
        let region = RegisterRegion {
            header: CommandHeader { flags: 1.into(), ..FromZeros::new_zeroed() },
            log2_pg_size_lvl: RegionPages::new().with_log2_page_size(16),
            access: RegionAccess::new()
                .with_local_write(true)
                .with_remote_read(true)
                .with_remote_write(true),
            log2_pbl_pg_size: 12.into(),
            key: 1.into(),
            pbl: ((FREE as u64 + 0x2_0000) & !0xffff).into(),
            va: 0x10_0000.into(),
            mr_size: 0x1_0000.into(),
            ..FromZeros::new_zeroed()
        };
        let key = self.command(region, &[0x18]);
        let queue = CreateCompletionQueue {
            cq_handle: 7.into(),
            cq_fco_cnq_id: 2.into(),
            cq_size: 64.into(),
            pbl: (RINGS as u64).into(),
            ..FromZeros::new_zeroed()
        };
        let queue = self.command(queue, &[0x28]);
        let wide = QueuePages::new().with_page_size(2);
        let pair = CreateQueuePair {
            qp_handle: 3.into(),
            qp_flags: QueuePairFlags::new().with_variable_sized_wqe_enabled(true),
            kind: QueuePairKind::ReliableConnected.code(),
            sq_pg_size_sq_lvl: wide,
            rq_pg_size_rq_lvl: wide,
            sq_size: 256.into(),
            rq_size: 16.into(),
            sq_fwo_sq_sge: 6.into(),
            rq_fwo_rq_sge: 1.into(),
            scq_cid: queue.into(),
            rcq_cid: queue.into(),
            pd_id: 1.into(),
            sq_pbl: (RINGS as u64 + 0x1_0000).into(),
            rq_pbl: (RINGS as u64 + 0x2_0000).into(),
            irrq_addr: (RINGS as u64 + 0x3_0000).into(),
            orrq_addr: (RINGS as u64 + 0x4_0000).into(),
            ..FromZeros::new_zeroed()
        };
        let pair = self.command(pair, &[0x40, 0x48, 0x50, 0x58]);
        let modify = |state, mask: ModifyMask| ModifyQueuePair {
            header: CommandHeader { reserved8: 2, ..FromZeros::new_zeroed() },
            modify_mask: mask.with_state(true),
            qp_cid: pair.into(),
            network_type_en_sqd_async_notify_new_state: StateByte::of(
                state,
                NetworkKind::RoceV2Ipv4,
            ),
            ..FromZeros::new_zeroed()
        };
        let mut init = modify(QueuePairState::Init, ModifyMask::new().with_access(true));
        init.modify_mask = init.modify_mask.with_pkey(true);
        init.pkey = 0xffff.into();
        init.access = QueuePairAccess::new()
            .with_local_write(true)
            .with_remote_write(true)
            .with_remote_read(true);
        self.command(init, &[]);
        let mask = ModifyMask::new().with_dgid(true).with_flow_label(true).with_sgid_index(true);
        let mask = mask.with_hop_limit(true).with_traffic_class(true).with_dest_mac(true);
        let mask = mask.with_vlan_id(true).with_path_mtu(true).with_rq_psn(true);
        let mask = mask.with_max_dest_rd_atomic(true).with_min_rnr_timer(true);
        let mut rtr = modify(QueuePairState::ReadyToReceive, mask.with_dest_qp_id(true));
        (rtr.dgid, rtr.dest_mac) = self.machine.own_addresses();
        (rtr.hop_limit, rtr.max_dest_rd_atomic, rtr.min_rnr_timer) = (64, 4, 1);
        rtr.dest_qp_id = pair.into();
        rtr.sgid_index = 0.into();
        self.command(rtr, &[]);
        let mask = ModifyMask::new().with_timeout(true).with_retry_cnt(true).with_rnr_retry(true);
        let mask = mask.with_sq_psn(true).with_max_rd_atomic(true);
        let mut rts = modify(QueuePairState::ReadyToSend, mask);
        (rts.timeout, rts.retry_cnt, rts.rnr_retry, rts.max_rd_atomic) = (14, 1, 1, 3);
        self.command(rts, &[]);
        (key, queue, pair)
    }

    /// A request of one piece at the `number`th three slots: opcode and flags.
    fn post(&mut self, pair: u32, number: u64, opcode: u8, flags: u8, key: u32) {
        let mut entry = [0; 48];
        (entry[0], entry[1], entry[2]) = (opcode, flags, 3);
        entry[8..12].copy_from_slice(&64u32.to_le_bytes());
        entry[16..24].copy_from_slice(&0x10_0100u64.to_le_bytes());
        entry[24..28].copy_from_slice(&key.to_le_bytes());
        entry[32..40].copy_from_slice(&0x10_0000u64.to_le_bytes());
        entry[40..44].copy_from_slice(&key.to_le_bytes());
        entry[44..48].copy_from_slice(&64u32.to_le_bytes());
        let ring = RINGS + 0x1_0000;
        self.memory(ring + number as usize * 48, &entry, &[]);
        let message = (number * 3) << 48 | (number + 1) << 24 | number;
        self.memory(ring + 256 * 16 + number as usize * 8, &message.to_le_bytes(), &[]);
        let place = Position::new(number as u32 * 3 + 3, false);
        let queue = QueueNumber::new(pair).unwrap();
        self.doorbell(Doorbell::send(queue).to_memory(place));
        self.step();
    }

    fn receive(&mut self, pair: u32, key: u32) {
        let mut entry = [0; 48];
        (entry[0], entry[2]) = (0x80, 3);
        entry[32..40].copy_from_slice(&0x10_0200u64.to_le_bytes());
        entry[40..44].copy_from_slice(&key.to_le_bytes());
        entry[44..48].copy_from_slice(&64u32.to_le_bytes());
        self.memory(RINGS + 0x2_0000, &entry, &[]);
        let queue = QueueNumber::new(pair).unwrap();
        self.doorbell(Doorbell::receive(queue).to_memory(Position::new(1, false)));
    }
}

#[test]
#[ignore = "writes the corpus"]
fn netxtreme_firmware() {
    const { assert!(RINGS + 0x5_0000 < ARENA) };
    let mut seeds = Vec::new();
    let mut add = |talk: Talk| seeds.push(talk.seed);
    for opcode in [0u8, 1, 2, 4, 5, 6, 8, 0xb, 0xc, 0xd, 0xe, 0x33] {
        let mut talk = Talk::new();
        let (key, queue, pair) = talk.connected();
        let number = QueueNumber::new(queue).unwrap();
        talk.receive(pair, key);
        talk.doorbell(Doorbell::completion_arm_enable(number).to_memory(Toggle::new(0)));
        let arm = Doorbell::completion_arm(number).to_memory(Position::START, Toggle::new(0));
        talk.doorbell(arm);
        talk.post(pair, 0, opcode, 1, key);
        talk.post(pair, 1, 4, 1, key);
        talk.post(pair, 2, 4, 0x11, key ^ 1);
        let consumed = Doorbell::completion(number).to_memory(Position::new(2, false));
        talk.doorbell(consumed);
        if opcode == 0 {
            let mut query = QueryQueuePair { qp_cid: pair.into(), ..FromZeros::new_zeroed() };
            (query.header.resp_size, query.header.resp_addr) = (7, (FREE as u64).into());
            talk.command(query, &[8]);
            let destroy = DestroyQueuePair { qp_cid: pair.into(), ..FromZeros::new_zeroed() };
            talk.command(destroy, &[]);
            let destroy =
                DestroyCompletionQueue { cq_cid: queue.into(), ..FromZeros::new_zeroed() };
            talk.command(destroy, &[]);
        }
        add(talk);
    }
    let mut talk = Talk::new();
    let mut query = QueryFunction::new_zeroed();
    (query.header.resp_size, query.header.resp_addr) = (10, (FREE as u64).into());
    talk.command(query, &[8]);
    let shared = CreateSharedReceiveQueue {
        srq_handle: 9.into(),
        eventq_id: 2.into(),
        srq_size: 16.into(),
        srq_fwo: 1.into(),
        pd_id: 1.into(),
        pbl: (RINGS as u64).into(),
        ..FromZeros::new_zeroed()
    };
    talk.command(shared, &[0x28]);
    talk.request(VerGetRequest::new());
    talk.request(FuncQcapsRequest::new());
    talk.request(FuncQcfgRequest::new());
    talk.request(FuncCfgRequest::new());
    let mut free = RingFreeRequest::new();
    (free.ring_type, free.ring_id) = (ring_type::NQ, 1.into());
    talk.request(free);
    talk.request(FuncDrvUnrgtrRequest::new());
    talk.request(FuncResetRequest::new());
    add(talk);
    write("netxtreme_firmware", seeds);
}
