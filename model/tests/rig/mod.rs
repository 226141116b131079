//! One end of a connection with plain queues around it, for tests that play the device.

#![allow(dead_code)] // Each test file uses its part.

use doorbell_model::memory::{
    Access, AddressSpace, Entry, Keys, List, Memory, Pages, Payload, Registration, TestMemory,
};
use doorbell_model::rc::{
    Attributes, ByteOrder, Connection, Data, Failure, Host, Mtu, Operation, Packet, Progress, Psn,
    Receive, ReceiveCompletion, Remote, Request, SendAttributes, Status,
};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The protection domain of every queue pair here.
pub const DOMAIN: u32 = 5;
/// Where each end's memory starts, as device addresses and as keys count.
pub const BASE: u64 = 0x10_0000;
/// The acknowledgement timeout of [`End`]s, in nanoseconds: code 4.
pub const TIMEOUT: u64 = 4096 << 4;

/// The device around a connection.
pub struct Device {
    pub memory: Memory,
    /// A key to all memory with all rights.
    pub key: u32,
    /// Work requests and receives that wait to be taken.
    pub requests: VecDeque<Request>,
    pub receives: VecDeque<Receive>,
    /// Packets that were sent.
    pub out: VecDeque<Packet>,
    /// Those of them that were sent before.
    pub sent_again: u64,
    /// What completed.
    pub sent: Vec<(u64, Status)>,
    pub received: Vec<ReceiveCompletion>,
    pub failures: Vec<Failure>,
    pub established: u32,
    /// How local operations end, by entry; success if not said.
    pub local: HashMap<u64, Status>,
    pub local_done: Vec<u64>,
    posted: u64,
    receives_posted: u64,
}

/// A connection and its device.
pub struct End {
    pub connection: Connection,
    pub device: Device,
}

impl Host for Device {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn transmit(&mut self, packet: Packet) {
        self.out.push_back(packet);
    }

    fn sent_again(&mut self, packets: u32) {
        self.sent_again += u64::from(packets);
    }

    fn next_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    fn local_operation(&mut self, entry: u64) -> Status {
        self.local_done.push(entry);
        self.local.get(&entry).copied().unwrap_or(Status::Success)
    }

    fn complete_send(&mut self, request: &Request, status: Status) {
        self.sent.push((request.entry, status));
    }

    fn next_receive(&mut self, _: Option<u32>) -> Option<Receive> {
        self.receives.pop_front()
    }

    fn complete_receive(&mut self, completion: ReceiveCompletion) {
        self.received.push(completion);
    }

    fn established(&mut self) {
        self.established += 1;
    }

    fn failed(&mut self, cause: Failure) {
        self.failures.push(cause);
    }
}

impl Device {
    /// A device with `len` bytes of zeros at [`BASE`].
    pub fn new(len: usize) -> Self {
        let mut space = TestMemory::new();
        space.add(BASE, len);
        let mut memory = Memory::new(Arc::new(space), Keys::new(1, 1000));
        let key = memory.keys.insert(registration(BASE, len as u64, Access::ALL), None).unwrap();
        Device {
            memory,
            key,
            requests: VecDeque::new(),
            receives: VecDeque::new(),
            out: VecDeque::new(),
            sent_again: 0,
            sent: Vec::new(),
            received: Vec::new(),
            failures: Vec::new(),
            established: 0,
            local: HashMap::new(),
            local_done: Vec::new(),
            posted: 0,
            receives_posted: 0,
        }
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.space().write(BASE + at, bytes).unwrap();
    }

    pub fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.space().read(BASE + at, &mut bytes).unwrap();
        bytes
    }

    /// A key to `len` bytes at `at`.
    pub fn register(&mut self, at: u64, len: u64, access: Access) -> u32 {
        self.memory.keys.insert(registration(BASE + at, len, access), None).unwrap()
    }

    /// A list of one entry.
    pub fn list(&self, at: u64, len: u32) -> List {
        List::from_iter([Entry { address: BASE + at, length: len, lkey: self.key }])
    }

    /// The same memory as a peer names it.
    pub fn remote(&self, at: u64) -> Remote {
        Remote { address: BASE + at, rkey: self.key }
    }

    /// Posts a work request; its entry.
    pub fn post(&mut self, operation: Operation, list: List) -> u64 {
        self.post_request(request(operation, list))
    }

    /// Posts a work request, whose entry is how many were posted before; the entry.
    pub fn post_request(&mut self, request: Request) -> u64 {
        let entry = self.posted;
        self.posted += 1;
        self.requests.push_back(Request { entry, ..request });
        entry
    }

    /// Posts a receive, whose entry is how many were posted before; the entry.
    pub fn post_receive(&mut self, list: List) -> u64 {
        let entry = self.receives_posted;
        self.receives_posted += 1;
        self.receives.push_back(Receive { entry, list });
        entry
    }

    /// The statuses of the work requests that completed.
    pub fn statuses(&self) -> Vec<Status> {
        self.sent.iter().map(|sent| sent.1).collect()
    }
}

/// A registration with addresses that are device addresses.
pub fn registration(start: u64, length: u64, access: Access) -> Registration {
    Registration {
        protection_domain: DOMAIN,
        access,
        start,
        length,
        pages: Pages::identity(start),
        relaxed: false,
        remote_invalidate: true,
    }
}

/// A signaled work request.
pub fn request(operation: Operation, list: List) -> Request {
    Request {
        entry: 0,
        operation,
        data: Data::List(list),
        fenced: false,
        solicited: false,
        signaled: true,
        extended: 0,
    }
}

/// What both ends of a test's connection have in common.
#[derive(Clone, Debug)]
pub struct Setup {
    pub mtu: Mtu,
    pub memory: usize,
    pub first_psn: u32,
    pub reads: u8,
    pub resources: u8,
    pub timeout: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub rnr_timer: u8,
    pub window: u32,
    pub access: Access,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            mtu: Mtu::B256,
            memory: 0x1_0000,
            first_psn: 100,
            reads: 4,
            resources: 4,
            timeout: 4,
            retry_count: 3,
            rnr_retry: 3,
            rnr_timer: 1,
            window: 128,
            access: Access::ALL,
        }
    }
}

impl Setup {
    pub fn attributes(&self, peer: u32) -> Attributes {
        Attributes {
            peer,
            extended: false,
            partition_key: 0xffff,
            mtu: self.mtu,
            protection_domain: DOMAIN,
            peer_access: self.access,
            expected_psn: Psn::new(self.first_psn),
            responder_resources: self.resources,
            rnr_timer: self.rnr_timer,
        }
    }

    pub fn send_attributes(&self) -> SendAttributes {
        SendAttributes {
            first_psn: Psn::new(self.first_psn),
            max_outstanding_reads: self.reads,
            timeout: self.timeout,
            retry_count: self.retry_count,
            rnr_retry: self.rnr_retry,
            window: self.window,
            atomic_answers: ByteOrder::Native,
        }
    }

    pub fn end(&self, peer: u32) -> End {
        let mut connection = Connection::new(self.attributes(peer));
        connection.start_sending(self.send_attributes());
        End { connection, device: Device::new(self.memory) }
    }

    /// A requester and a responder.
    pub fn pair(&self) -> (End, End) {
        (self.end(1), self.end(0))
    }
}

impl End {
    /// Does all that is due at `now`.
    pub fn advance(&mut self, now: u64) {
        while self.connection.advance(now, &mut self.device) == Progress::More {}
    }

    /// The packets that it sends at `now`.
    pub fn packets(&mut self, now: u64) -> Vec<Packet> {
        self.advance(now);
        self.device.out.drain(..).collect()
    }

    /// Takes in packets, without answering yet.
    pub fn take<'a>(&mut self, now: u64, packets: impl IntoIterator<Item = &'a Packet>) {
        for packet in packets {
            self.connection.receive(now, packet, &mut self.device);
        }
    }

    /// Takes in packets and answers them.
    pub fn answer<'a>(
        &mut self,
        now: u64,
        packets: impl IntoIterator<Item = &'a Packet>,
    ) -> Vec<Packet> {
        self.take(now, packets);
        self.packets(now)
    }
}

/// Carries packets both ways at `now` until neither end sends any.
pub fn exchange(now: u64, a: &mut End, b: &mut End) {
    for _ in 0..1_000_000 {
        let to_b = a.packets(now);
        let to_a = b.answer(now, &to_b);
        if to_b.is_empty() && to_a.is_empty() {
            return;
        }
        a.take(now, &to_a);
    }
    panic!("the ends never came to rest");
}

/// A packet's payload.
pub fn payload(packet: &Packet) -> Vec<u8> {
    bytes(&packet.payload)
}

pub fn bytes(payload: &Payload) -> Vec<u8> {
    let mut bytes = vec![0; payload.len()];
    payload.read(0, &mut bytes).unwrap();
    bytes
}

/// Bytes that differ from place to place and from `seed` to `seed`.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

/// A device address space, for accesses beside the keys.
pub fn space(device: &Device) -> &dyn AddressSpace {
    device.memory.space()
}
