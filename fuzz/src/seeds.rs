//! Writes the inputs that fuzzing began with: what drivers and NICs really said to each other.
//!
//! `cargo test -p doorbell-fuzz --lib -- --ignored` writes them to `corpus/`, where
//! `cargo fuzz cmin` then keeps those that show something new.

use crate::bench::{Bench, FIRST_PSN, KINDS, Kind, SLOTS, piece, remote};
use crate::input::Input;
use crate::meddler::small_nic;
use crate::verbs_ioctl::{METHODS, carries};
use doorbell::mlx5::abi::verbs::ioctl::{Attribute, Header};
use doorbell::mlx5::abi::verbs::method::{self, UHW_IN};
use doorbell::mlx5::{Connection, Nic, Order, PeerRights, access};
use doorbell_hal::Errno;
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::Network;
use doorbell_model::rc::Packet;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use zerocopy::{FromBytes, IntoBytes};

/// An input that is being put together.
#[derive(Clone, Default)]
pub(crate) struct Seed(Vec<u8>);

impl Seed {
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn half(self, half: u16) -> Self {
        self.bytes(&half.to_le_bytes())
    }

    pub(crate) fn double(self, double: u64) -> Self {
        self.bytes(&double.to_le_bytes())
    }

    /// So many calls of the kernel that are answered as they should be. Too many do no harm.
    fn kept(self, calls: usize) -> Self {
        self.bytes(&vec![0; calls])
    }
}

pub(crate) fn write(target: &str, seeds: impl IntoIterator<Item = Seed>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&directory).unwrap();
    for (number, seed) in seeds.into_iter().enumerate() {
        std::fs::write(directory.join(format!("seed-{number:03}")), seed.0).unwrap();
    }
}

/// One of each request, from side 0 to side 1 of a bench: opcode, flags, and what follows the
/// control segment.
fn requests(bench: &Bench) -> Vec<(u8, Vec<u8>)> {
    let key = |side: usize, kind| bench.sides[side].key(kind);
    let source = piece(Kind::Constant, key(0, Kind::Constant), 0, 700);
    let into = |len| piece(Kind::Local, key(0, Kind::Local), 8, len);
    let there = |kind| remote(kind, key(1, kind), 16);
    let mut inline = (0x8000_0000u32 | 20).to_be_bytes().to_vec();
    inline.extend_from_slice(&[7; 28]);
    let operands = [3u64.to_be_bytes(), 0u64.to_be_bytes()].concat();
    let atomic = [&there(Kind::RemoteAtomic)[..], &operands, &into(8)].concat();
    let mut requests = vec![
        (0x00, Vec::new()),
        (0x01, source.to_vec()),
        (0x0a, source.to_vec()),
        (0x0a, [source, piece(Kind::Paged, key(0, Kind::Paged), 100, 600)].concat()),
        (0x0a, inline.clone()),
        (0x0b, Vec::new()),
        (0x11, atomic.clone()),
        (0x12, atomic),
        (0x08, [&there(Kind::RemoteWrite)[..], &inline].concat()),
    ];
    for kind in KINDS {
        requests.push((0x08, [there(kind), source].concat()));
        requests.push((0x09, [there(kind), source].concat()));
        requests.push((0x10, [there(kind), into(700)].concat()));
    }
    requests
}

/// What a bench is made of: seed, and the smallest MTU with all rights.
fn bench_seed(number: usize) -> Seed {
    Seed(vec![number as u8, 0])
}

/// A bench on which everything may be reached by anybody.
fn open_bench() -> Bench {
    let bench = Bench::new(&Input::new(&[1, 0]));
    for side in &bench.sides {
        KINDS.into_iter().for_each(|kind| side.space.grant(kind.bytes(), true, true));
    }
    bench
}

#[test]
#[ignore = "writes the corpus"]
fn work_entries() {
    let bench = open_bench();
    let requests = requests(&bench);
    // CQ_UPDATE, and with it: a fence, solicited, an event.
    let post = |seed: Seed, (opcode, rest): &(u8, Vec<u8>), flags: u8| {
        seed.bytes(&[0, *opcode, flags, 1 + rest.len() as u8 / 16]).bytes(rest)
    };
    let receive = |seed: Seed| {
        let into = piece(Kind::Local, bench.sides[1].key(Kind::Local), 0, 0x800);
        (0..3).fold(seed, |seed, _| seed.bytes(&[13, 3]).bytes(&into[2..4]))
    };
    let step = |seed: Seed| seed.bytes(&[15, 255]);
    let alone = requests.iter().enumerate().map(|(number, request)| {
        step(post(receive(bench_seed(number)), request, [8, 0x88, 0x0a, 0x0c][number % 4]))
    });
    let together = (0..6).map(|round| {
        let chosen = requests.iter().skip(round).step_by(5);
        step(chosen.fold(receive(bench_seed(round)), |seed, request| post(seed, request, 8)))
    });
    // Entries that wrap, by BlueFlame, with receives of its own, failing and connecting again.
    let wrapping = (0..SLOTS as usize + 8).fold(bench_seed(0), |seed, number| {
        let seed = post(seed, &requests[8], if number % 8 == 0 { 8 } else { 0 });
        if number % 8 == 0 { step(seed).bytes(&[11, 255]) } else { seed }
    });
    let into = piece(Kind::Local, bench.sides[0].key(Kind::Local), 0, 0x400);
    let mut entry = [0; 64];
    entry[..16].copy_from_slice(&into);
    entry[20..24].copy_from_slice(&0x100u32.to_be_bytes());
    let received = (0..4).fold(bench_seed(3), |seed, number| {
        step(seed.bytes(&[7, number]).bytes(&entry).bytes(&[13, number]).half(0x300))
    });
    let failed = step(post(receive(bench_seed(1)), &requests[2], 8).bytes(&[14, 0]));
    let failed = step(post(failed.bytes(&[14, 1]), &requests[3], 8).bytes(&[12]).double(0));
    let blue = post(bench_seed(2), &requests[9], 8).bytes(&[10, 0, 1, 0]);
    let others = [wrapping, received, failed, step(blue.bytes(&[14, 9, 4, 1, 2, 3]))];
    write("work_entries", alone.chain(together).chain(others));
}

/// The packets that the requests of a bench made, each with the side that got it.
fn packets_of(bench: &mut Bench) -> Vec<(usize, Vec<u8>)> {
    for (number, (opcode, rest)) in requests(bench).into_iter().enumerate() {
        for _ in 0..2 {
            let into = piece(Kind::Local, bench.sides[1].key(Kind::Local), 0, 0x800);
            bench.receive(1, &into);
        }
        bench.post(0, opcode, 8, &rest);
        bench.network.run_until_idle(10_000);
        bench.sides.iter_mut().for_each(|side| side.poll());
        if number % 3 == 2 {
            bench.connect();
        }
    }
    bench.heard()
}

#[test]
#[ignore = "writes the corpus"]
fn packets() {
    let mut bench = open_bench();
    let heard = packets_of(&mut bench);
    let mut by_opcode = BTreeMap::new();
    for (_, bytes) in &heard {
        by_opcode.entry(bytes[0]).or_insert_with(|| Seed(bytes.clone()));
    }
    write("packet_bytes", by_opcode.into_values());

    let inject = |seed: Seed, (side, bytes): &(usize, Vec<u8>)| {
        let is_first = Packet::decode(bytes).is_ok_and(|packet| !packet.opcode.is_response());
        let ahead = if is_first { 0 } else { 0xff };
        let len = bytes.len() as u16;
        seed.bytes(&[(*side as u8) << 7, 0, ahead]).half(len).bytes(bytes)
    };
    let receive = |seed: Seed| (0..2).fold(seed, |seed, _| seed.bytes(&[0x80 | 10, 1]).half(0x7ff));
    let each = heard.chunks(6).take(60).enumerate().map(|(number, packets)| {
        let seed = receive(bench_seed(number));
        packets.iter().fold(seed, inject).bytes(&[15, 100, 13, 15, 100])
    });
    let asked = (0..48u8).map(|what| {
        let seed = receive(bench_seed(what.into())).bytes(&[11, (what >> 3) & 2]);
        let seed = seed.bytes(&[8, what]).half(600).bytes(&[0; 17]).bytes(&[15, 9]);
        let answers = heard.iter().filter(|(side, _)| *side == 0);
        answers.skip(what.into()).take(3).fold(seed, inject).bytes(&[12, 3, 15, 100])
    });
    write("packets", each.chain(asked));

    // What a connection sends from its beginning on.
    let mut frames = Vec::new();
    for (side, bytes) in &heard {
        let Ok(packet) = Packet::decode(bytes) else { continue };
        if packet.psn.get() == FIRST_PSN && !packet.opcode.is_response() {
            frames.push(Seed::default());
        }
        if let Some(seed) = frames.pop() {
            frames.push(seed.bytes(&crate::frames::tests::frame(*side, packet)));
        }
    }
    write("frames", frames);
}

#[test]
#[ignore = "writes the corpus"]
fn completion() {
    let mut bench = open_bench();
    let mut slots = Vec::new();
    for (opcode, rest) in requests(&bench) {
        bench.receive(1, &piece(Kind::Local, bench.sides[1].key(Kind::Local), 0, 0x800));
        bench.post(0, opcode, 8, &rest);
        bench.network.run_until_idle(10_000);
        for side in &mut bench.sides {
            slots.extend(side.completions());
            side.poll();
        }
        bench.connect();
    }
    // 32 slots, a table of 8, 4 queue pairs of 16 slots and 16 receives.
    let start = |number: usize| {
        let pair = [3, 5, 1, 47, number as u8];
        Seed(vec![5, 3, 3]).bytes(&pair).bytes(&pair).bytes(&pair).bytes(&pair)
    };
    let seeds = slots.chunks(4).enumerate().map(|(number, slots)| {
        let post = |seed: Seed, kind: u8| {
            seed.bytes(&[4, kind % 4])
                .double(kind.into())
                .bytes(&[40])
                .bytes(&[0x55; 40])
                .bytes(&[kind, 1])
        };
        let seed = (0..6).fold(start(number), post);
        let seed = seed.bytes(&[5, 1]).double(9).bytes(&[2, 8, 8]);
        let seed = slots.iter().fold(seed, |seed, slot| seed.bytes(&[1]).bytes(slot).bytes(&[2]));
        seed.bytes(&[8, 7, 1, 9, 1, 6, 1, 10])
    });
    write("completion", seeds);
}

#[test]
#[ignore = "writes the corpus"]
fn kernel_answers() {
    // Seed, open, then each call that an engine makes.
    let calls: Vec<Vec<u8>> = vec![
        vec![2],
        vec![1, 0],
        vec![0, 63],
        vec![3, 0, 0x10],
        vec![4, 16, 16, 1, 4, 0],
        vec![4, 8, 0, 1, 4, 3],
        vec![4, 4, 4, 2, 4, 9],
        vec![5, 0, 0],
        vec![5, 1, 0],
        vec![6, 0, 0, 0, 0, 64, 0, 0, 7, 0, 1, 2, 3, 0, 1, 2],
        vec![14],
        vec![8],
        vec![9, 0],
        vec![10, 0],
        vec![8],
        vec![10, 0],
        vec![12, 0, 0],
        vec![12, 2, 0],
        vec![13, 0],
        vec![15],
    ];
    let whole = |open: Seed| {
        calls.iter().fold(open, |seed, call| seed.bytes(call).kept(14)).bytes(&[1, 2, 0, 1, 3, 4])
    };
    let opened = Seed(vec![0]).kept(7);
    // The n-th call refused, or answered without being made; and an answer changed here and there.
    let refused = (0..60).map(|call| {
        let mut seed = whole(opened.clone());
        let at = 1 + call * 4;
        seed.0.splice(at..at, [1 + call as u8 % 8, [12, 22, 5, 28][call % 4]]);
        seed
    });
    let changed = (0..60).map(|call| {
        let mut seed = whole(opened.clone());
        let at = 1 + call * 3;
        let to = if call % 2 == 0 { 0xff } else { 0 };
        seed.0.splice(at..at, [9, call as u8, call as u8 * 4, 7, to, to, to, to, to, to, to, to]);
        seed
    });
    // QUERY_DEVICE and GET_CONTEXT with the largest of each limit.
    let limits = (0..46).flat_map(|word| {
        [0, 1].map(|call| {
            let open = Seed(vec![0]).kept(call).bytes(&[9, 2 * call as u8, word * 4, 3]);
            let open = open.bytes(&[0xff; 4]).kept(6 - call);
            open.bytes(&[0, 253]).kept(6).bytes(&[4, 253, 253, 255, 255, 2]).kept(12)
        })
    });
    write(
        "kernel_answers",
        [whole(opened.clone())].into_iter().chain(refused).chain(changed).chain(limits),
    );
}

#[test]
#[ignore = "writes the corpus"]
fn event_records() {
    let asynchronous = |seed: Seed, kind: u32, element: u64| {
        seed.bytes(&[9]).double(element).bytes(&kind.to_le_bytes()).bytes(&[0; 4])
    };
    let each = (0..24u32).map(|kind| {
        let seed = asynchronous(Seed::default(), kind, u64::from(kind % 3)).kept(1);
        asynchronous(seed.bytes(&[9]).double(1).kept(1), kind, 1 << (kind + 10))
    });
    let many = (0..20).fold(Seed::default(), |seed, _| asynchronous(seed, 1, 0));
    let odd = Seed(vec![65]).bytes(&[1; 16]).half(8).bytes(&[1, 5, 0, 1, 11, 65]).double(1).half(9);
    write("event_records", each.chain([many, odd]));
}

#[test]
#[ignore = "writes the corpus"]
fn endpoint() {
    let network = Network::stepped(0);
    let nic = Nic::open(small_nic(&network)).unwrap();
    let queue = nic.completion_queue(300).unwrap();
    let region = nic.region::<access::RemoteAtomic>(4096, Order::InOrder).unwrap();
    let remote = region.remote();
    let endpoint = nic.queue_pair(&queue).create().unwrap().endpoint();
    // The deterministic parts: the region's address is not.
    let slice = doorbell::wr::RemoteSlice::new(0x7000_0000, remote.len(), remote.rkey());
    let slices = [(0, 8u32), (8, 8), (4096, 0), (1, 4096)].map(|(start, len)| {
        let end = start + u64::from(len);
        let seed = Seed(slice.to_bytes().to_vec()).double(start).double(end);
        seed.bytes(&len.to_le_bytes())
    });
    let eight = Seed(doorbell::wr::RemoteSlice::new(64, 8, 3).to_bytes().to_vec());
    let eight = eight.double(0).double(8).bytes(&8u32.to_le_bytes());
    let whole = Seed(endpoint.to_bytes().to_vec());
    write(
        "endpoint",
        [whole.clone(), Seed(whole.0[..31].to_vec()), eight].into_iter().chain(slices),
    );
}

#[test]
#[ignore = "writes the corpus"]
fn operations() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut sequence = |faults: u8, calls: &[u8], count: usize| {
        let mut seed = Seed(vec![faults, random.u8(..)]);
        for _ in 0..count {
            let call = calls[random.usize(..calls.len())];
            let rest = match call {
                0..=9 => 16,
                10 => 2,
                11..=15 => 2,
                20..=26 => 1,
                _ => 0,
            };
            let rest: Vec<u8> = (0..rest).map(|_| random.u8(..)).collect();
            seed = seed.bytes(&[random.u8(..), call]).bytes(&rest);
        }
        seed
    };
    let usual = [0, 0, 0, 0, 11, 11, 16, 16, 20, 22, 23, 31];
    let rough = [0, 0, 0, 10, 11, 16, 16, 20, 22, 23, 27, 28, 29, 31];
    let quiet: Vec<_> = (0..20).map(|_| sequence(0, &usual, 40)).collect();
    let lossy: Vec<_> = (0..20).map(|bits| sequence(128 | (bits * 3), &usual, 40)).collect();
    let failing: Vec<_> = (0..20).map(|bits| sequence(bits * 13, &rough, 50)).collect();
    write("operations", quiet.into_iter().chain(lossy).chain(failing));
}

/// A verbs file that writes down what it was asked, as `verbs_ioctl` takes it.
struct Recorder {
    inner: VirtualConnectx,
    commands: Arc<Mutex<Vec<Seed>>>,
    pages: Mutex<BTreeMap<u64, u64>>,
}

impl Recorder {
    /// An address that is the same in every run: pages are numbered as they are first seen.
    fn renamed(&self, address: u64) -> u64 {
        let mut pages = self.pages.lock().unwrap();
        let count = pages.len() as u64;
        let page = *pages.entry(address >> 12).or_insert(0x10 + count * 2);
        page << 12 | address & 0xfff
    }

    fn record(&self, command: &[u64]) {
        let (header, rest) = Header::read_from_prefix(command.as_bytes()).unwrap();
        let known = METHODS.iter().position(|known| *known == header.method());
        let mut seed = Seed(vec![0, known.unwrap() as u8, 0, header.num_attrs as u8]);
        let attributes = <[Attribute]>::ref_from_bytes(rest).unwrap();
        let invoked = attributes.iter().find(|attribute| {
            header.method() == method::device::INVOKE_WRITE
                && attribute.attr_id == method::invoke_write::WRITE_CMD
        });
        for attribute in attributes {
            let Attribute { attr_id: id, len, data, .. } = *attribute;
            let is_input = match header.method() {
                method::device::INVOKE_WRITE => {
                    matches!(id, method::invoke_write::CORE_IN | UHW_IN)
                }
                method::qp::CREATE => matches!(id, method::create_qp::CAP | UHW_IN),
                _ => id == UHW_IN && header.object_id < 16,
            };
            seed = seed.half(id).half(len);
            if len <= 8 && data < 1 << 32 {
                seed = seed.bytes(&[carries::VALUE]).double(data);
            } else if !is_input {
                seed = seed.bytes(&[carries::OUTPUT]);
            } else {
                // SAFETY: K2: the driver's input, for as long as the call takes.
                let bytes = unsafe {
                    std::slice::from_raw_parts(
                        std::ptr::with_exposed_provenance::<u8>(data as usize),
                        len.into(),
                    )
                };
                let mut bytes = bytes.to_vec();
                let is_region = invoked.is_some_and(|invoked| invoked.data == 9);
                let places: &[usize] = match id {
                    UHW_IN if header.method() != method::device::GET_CONTEXT => &[0, 8],
                    method::invoke_write::CORE_IN if is_region => &[8, 24],
                    _ => &[],
                };
                for &at in places {
                    let address = u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
                    bytes[at..at + 8].copy_from_slice(&self.renamed(address).to_ne_bytes());
                }
                seed = seed.bytes(&[carries::INPUT]).bytes(&bytes);
            }
        }
        self.commands.lock().unwrap().push(seed);
    }
}

// SAFETY: K1: everything goes to the virtual NIC's kernel.
unsafe impl Uverbs for Recorder {
    type Memory = <VirtualConnectx as Uverbs>::Memory;
    type Page = <VirtualConnectx as Uverbs>::Page;
    type EventFiles = <VirtualConnectx as Uverbs>::EventFiles;

    fn device_name(&self) -> &str {
        self.inner.device_name()
    }

    unsafe fn ioctl(&self, command: &mut [u64]) -> Result<(), Errno> {
        self.record(command);
        // SAFETY: K2, passed on to our caller.
        unsafe { self.inner.ioctl(command) }
    }

    fn map(&self, offset: u64, len: usize) -> Result<Self::Page, Errno> {
        self.commands.lock().unwrap().push(Seed(vec![200, (offset >> 12) as u8, 0]));
        self.inner.map(offset, len)
    }

    fn allocate(&self, len: usize) -> Result<Self::Memory, Errno> {
        self.inner.allocate(len)
    }

    unsafe fn event_files(&self, first: i32, second: i32) -> Result<Self::EventFiles, Errno> {
        self.commands.lock().unwrap().push(Seed(vec![235, first as u8, second as u8]));
        // SAFETY: K3, passed on to our caller.
        unsafe { self.inner.event_files(first, second) }
    }

    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn random(&self) -> Result<u32, Errno> {
        self.inner.random()
    }
}

#[test]
#[ignore = "writes the corpus"]
fn verbs_ioctl() {
    let commands = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder {
        inner: small_nic(&Network::stepped(0)),
        commands: commands.clone(),
        pages: Mutex::default(),
    };
    let nic = Nic::open(recorder).unwrap();
    let channel = nic.event_channel().unwrap();
    let queue = nic.completion_queue_with_events(31, &channel).unwrap();
    let polled = nic.completion_queue(63).unwrap();
    let region = nic.region::<access::RemoteAtomic>(8192, Order::Relaxed).unwrap();
    let pair = nic.queue_pair(&queue).sends(16).receives(8).create().unwrap();
    let other = nic.queue_pair(&polled).sends(8).write_combining().create().unwrap();
    let endpoint = pair.endpoint();
    let rights = PeerRights::WRITE | PeerRights::READ;
    let mut pair = pair.connect(rights, &endpoint, &Connection::default()).unwrap();
    pair.receives().post(doorbell::wr::receive(region.slice(0..64).unwrap())).unwrap();
    let failed = pair.fail().unwrap();
    drop((failed, other, region, queue, polled, channel, nic));
    let commands = commands.lock().unwrap().clone();
    let all = commands.iter().fold(Seed::default(), |seed, command| seed.bytes(&command.0));
    // Everything; everything twice; and everything up to each command, which then comes again.
    let twice = all.clone().bytes(&[240]).bytes(&all.0);
    let prefixes = (1..commands.len()).map(|count| {
        let seed = commands[..count].iter().fold(Seed::default(), |seed, it| seed.bytes(&it.0));
        seed.bytes(&commands[count - 1].0).bytes(&[225, 50])
    });
    write("verbs_ioctl", [all, twice].into_iter().chain(prefixes));
}
