//! One side of a connection, driven by hand: a completion queue that is polled and a queue pair
//! whose rings are written, byte by byte.

use crate::client::*;
use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::cqe::{Completion, ErrorCompletion};
use doorbell::mlx5::abi::doorbell::{
    ArmDoorbell, ArmSequence, ArmWord, CompletionQueueWord, ConsumerWord, CounterWord,
};
use doorbell::mlx5::abi::driver;
use doorbell::mlx5::abi::uar;
use doorbell::mlx5::abi::verbs::AccessFlags;
use doorbell::mlx5::abi::verbs::ioctl::Attribute;
use doorbell::mlx5::abi::verbs::method::{self, UHW_IN, UHW_OUT};
use doorbell::mlx5::abi::verbs::qp::{self, ModifyQp, QpAttrMask, QpCap, QpDest, QpState};
use doorbell::mlx5::abi::wqe::{
    CompletionMode, ControlFlags, ControlSegment, DataSegment, FenceMode, Opcode,
    RemoteAddressSegment,
};
use doorbell_hal::Errno;
use doorbell_hal::mmio::{Register, RegisterPage};
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::connectx::{Network, VirtualRegister};
use doorbell_model::kernel::VirtualMemory;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// A completion queue, polled by hand.
pub struct Queue {
    pub handle: u32,
    pub number: u32,
    pub entries: u32,
    pub memory: Arc<VirtualMemory>,
    pub consumer: u32,
    pub register: VirtualRegister,
    record: usize,
    size: usize,
}

/// How a completion queue is to be made.
pub struct QueueOptions {
    pub entries: u32,
    pub size: u32,
    pub channel: Option<i32>,
    pub events: Option<i32>,
    pub user_handle: u64,
    pub flags: u64,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions {
            entries: 15,
            size: 64,
            channel: None,
            events: None,
            user_handle: 0xc0,
            flags: 0,
        }
    }
}

impl Client {
    pub fn queue(&self, page: (u32, u64), options: &QueueOptions) -> Queue {
        let entries = (options.entries + 1).next_power_of_two();
        let size = options.size as usize;
        let record = entries as usize * size;
        let memory = Arc::new(self.memory(record + 64));
        for entry in 0..entries as usize {
            store(&memory, entry * size + size - 64, Completion::fresh().as_bytes());
        }
        let request = driver::CreateCq {
            buf_addr: address(&memory),
            db_addr: address(&memory) + record as u64,
            cqe_size: options.size,
            flags: driver::CreateCqFlags::new().with_uar_page_index(true),
            uar_page_index: page.0 as u16,
            ..driver::CreateCq::new_zeroed()
        };
        let (handle, number, _) = self.create_queue(options, request.as_bytes()).unwrap();
        let register = self.file.map(page.1, 4096).unwrap().register(uar::CQ_ARM_OFFSET, 8);
        let register = register.unwrap();
        Queue { handle, number, entries, memory, consumer: 0, register, record, size }
    }

    /// Handle, number and entries of a new completion queue.
    pub fn create_queue(
        &self,
        options: &QueueOptions,
        driver: &[u8],
    ) -> Result<(u32, u32, u32), Errno> {
        use method::create_cq as id;
        let (mut entries, mut number) = ([0; 4], [0; 8]);
        let mut attributes = vec![
            Attribute::new_handle(id::HANDLE),
            Attribute::input_u32(id::CQE, options.entries),
            Attribute::input_u64(id::USER_HANDLE, options.user_handle),
            Attribute::input_u32(id::COMP_VECTOR, 0),
            Attribute::input_u64(id::FLAGS, options.flags),
            output(id::RESP_CQE, &mut entries),
            input(UHW_IN, driver),
            output(UHW_OUT, &mut number),
        ];
        if let Some(channel) = options.channel {
            attributes.push(Attribute::descriptor(id::COMP_CHANNEL, channel));
        }
        if let Some(events) = options.events {
            attributes.push(Attribute::descriptor(id::EVENT_FD, events));
        }
        let mut bytes = command(method::cq::CREATE, &attributes);
        self.call(&mut bytes)?;
        let handle = attribute(&bytes, 0).data as u32;
        let number = u32::from_ne_bytes(number[..4].try_into().unwrap());
        Ok((handle, number, u32::from_ne_bytes(entries)))
    }
}

impl Queue {
    /// The next completion, without telling the NIC that it was taken.
    pub fn peek(&mut self) -> Option<Completion> {
        let index = (self.consumer & (self.entries - 1)) as usize;
        let at = index * self.size + self.size - 64;
        let owner = load(&self.memory, at + 63, 1)[0];
        let pass = self.consumer & self.entries != 0;
        if owner >> 4 == 15 || (owner & 1 == 1) != pass {
            return None;
        }
        self.consumer += 1;
        Some(Completion::read_from_bytes(&load(&self.memory, at, 64)).unwrap())
    }

    /// The next completion.
    pub fn poll(&mut self) -> Option<Completion> {
        let completion = self.peek();
        self.publish();
        completion
    }

    /// Tells the NIC what was consumed.
    pub fn publish(&self) {
        let word = ConsumerWord::new().with_index(U24::truncate(self.consumer));
        self::word(&self.memory, self.record).store(word.to_memory(), Ordering::Release);
    }

    /// Syndrome and entry of each completion that is there; 0 is success.
    pub fn drain(&mut self) -> Vec<(u8, u16)> {
        let mut drained = Vec::new();
        while let Some(completion) = self.poll() {
            let error: &ErrorCompletion = completion.as_error();
            let failed = matches!(completion.op_own.opcode(), 13 | 14);
            let syndrome = if failed { error.syndrome } else { 0 };
            drained.push((syndrome, completion.wqe_counter.get()));
        }
        drained
    }

    /// Arms the queue, through the record and the register.
    pub fn arm(&self, solicited_only: bool, sequence: u32) {
        let arm = ArmWord::new()
            .with_consumer(U24::truncate(self.consumer))
            .with_solicited_only(solicited_only)
            .with_sequence(ArmSequence::of(sequence));
        word(&self.memory, self.record + 4).store(arm.to_memory(), Ordering::Release);
        let cqn = CompletionQueueWord::new().with_number(U24::truncate(self.number));
        let doorbell = ArmDoorbell { arm, cqn };
        // SAFETY: R1: the register is 8 bytes.
        unsafe { self.register.store(0, doorbell.to_memory()) };
    }
}

/// How a queue pair is to be made.
pub struct PairOptions {
    pub slots: u32,
    pub receives: u32,
    pub stride_shift: u32,
    pub user_index: u32,
    pub events: Option<i32>,
}

impl Default for PairOptions {
    fn default() -> Self {
        PairOptions { slots: 16, receives: 8, stride_shift: 6, user_index: 0x123, events: None }
    }
}

/// A queue pair, whose rings are written by hand.
pub struct Pair {
    pub handle: u32,
    pub number: u32,
    pub memory: Arc<VirtualMemory>,
    pub register: VirtualRegister,
    pub posted: u16,
    pub received: u16,
    pub slots: u32,
    receives: u32,
    stride: usize,
    record: usize,
}

impl Client {
    /// What the driver says of a queue pair with these rings.
    pub fn pair_request(
        &self,
        memory: &VirtualMemory,
        page: u32,
        options: &PairOptions,
    ) -> driver::CreateQp {
        let receive_bytes = (options.receives << options.stride_shift) as usize;
        let record = receive_bytes + options.slots as usize * 64;
        driver::CreateQp {
            buf_addr: address(memory),
            db_addr: address(memory) + record as u64,
            sq_wqe_count: options.slots,
            rq_wqe_count: options.receives,
            rq_wqe_shift: if options.receives > 0 { options.stride_shift } else { 0 },
            flags: driver::CreateQpFlags::new().with_uar_page_index(true),
            uidx: options.user_index,
            bfreg_index: page,
            ..driver::CreateQp::new_zeroed()
        }
    }

    /// Handle and number of a new queue pair.
    pub fn create_pair(
        &self,
        domain: u32,
        queues: [u32; 2],
        cap: QpCap,
        events: Option<i32>,
        driver: &[u8],
    ) -> Result<(u32, u32), Errno> {
        use method::create_qp as id;
        let (mut cap_answer, mut number) = (QpCap::new_zeroed(), [0; 4]);
        let mut driver_answer = driver::CreateQpResp::new_zeroed();
        let mut attributes = vec![
            Attribute::new_handle(id::HANDLE),
            Attribute::handle(id::PD_HANDLE, domain),
            Attribute::handle(id::SEND_CQ_HANDLE, queues[0]),
            Attribute::handle(id::RECV_CQ_HANDLE, queues[1]),
            Attribute::input_u64(id::USER_HANDLE, 0x9a),
            input(id::CAP, cap.as_bytes()),
            Attribute::input_u64(id::TYPE, qp::QpType::ReliableConnected.code().into()),
            output(id::RESP_CAP, cap_answer.as_mut_bytes()),
            output(id::RESP_QP_NUM, &mut number),
            input(UHW_IN, driver),
            output(UHW_OUT, driver_answer.as_mut_bytes()),
        ];
        if let Some(events) = events {
            attributes.push(Attribute::descriptor(id::EVENT_FD, events));
        }
        let mut bytes = command(method::qp::CREATE, &attributes);
        self.call(&mut bytes)?;
        Ok((attribute(&bytes, 0).data as u32, u32::from_ne_bytes(number)))
    }

    pub fn pair(&self, domain: u32, page: (u32, u64), cq: u32, options: &PairOptions) -> Pair {
        let receive_bytes = (options.receives << options.stride_shift) as usize;
        let record = receive_bytes + options.slots as usize * 64;
        let memory = Arc::new(self.memory(record + 64));
        let request = self.pair_request(&memory, page.0, options);
        let cap = QpCap {
            max_send_wr: options.slots,
            max_recv_wr: options.receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let (handle, number) =
            self.create_pair(domain, [cq; 2], cap, options.events, request.as_bytes()).unwrap();
        let register = self.file.map(page.1, 4096).unwrap();
        let register = register.register(uar::SEND_OFFSET, uar::SEND_REGISTER_BYTES).unwrap();
        Pair {
            handle,
            number,
            memory,
            register,
            posted: 0,
            received: 0,
            slots: options.slots,
            receives: options.receives,
            stride: 1 << options.stride_shift,
            record,
        }
    }

    /// Where peers find this NIC: its last identifier.
    pub fn gid(&self) -> [u8; 16] {
        self.control.gids()[3].unwrap().raw
    }

    pub fn to_init(&self, pair: u32, rights: AccessFlags) -> Result<(), Errno> {
        self.modify(&ModifyQp {
            qp_handle: pair,
            attr_mask: QpAttrMask::new()
                .with_state(true)
                .with_pkey_index(true)
                .with_port(true)
                .with_access_flags(true),
            qp_state: QpState::Init.code(),
            port_num: 1,
            qp_access_flags: rights,
            ..ModifyQp::new_zeroed()
        })
    }

    pub fn to_rtr(&self, pair: u32, peer: u32, gid: [u8; 16]) -> Result<(), Errno> {
        self.modify(&rtr(pair, peer, gid))
    }

    pub fn to_rts(&self, pair: u32) -> Result<(), Errno> {
        self.modify(&rts(pair))
    }

    pub fn to_state(&self, pair: u32, state: QpState) -> Result<(), Errno> {
        self.modify(&ModifyQp {
            qp_handle: pair,
            attr_mask: QpAttrMask::new().with_state(true),
            qp_state: state.code(),
            ..ModifyQp::new_zeroed()
        })
    }
}

/// A change to Ready to Receive.
pub fn rtr(pair: u32, peer: u32, gid: [u8; 16]) -> ModifyQp {
    ModifyQp {
        qp_handle: pair,
        attr_mask: QpAttrMask::new()
            .with_state(true)
            .with_av(true)
            .with_path_mtu(true)
            .with_dest_qpn(true)
            .with_rq_psn(true)
            .with_max_dest_rd_atomic(true)
            .with_min_rnr_timer(true),
        qp_state: QpState::ReadyToReceive.code(),
        dest: QpDest {
            dgid: gid,
            sgid_index: 3,
            hop_limit: 64,
            is_global: 1,
            port_num: 1,
            ..QpDest::new_zeroed()
        },
        path_mtu: 3,
        dest_qp_num: peer,
        rq_psn: 0xff_fffe,
        max_dest_rd_atomic: 16,
        min_rnr_timer: 12,
        ..ModifyQp::new_zeroed()
    }
}

/// A change to Ready to Send.
pub fn rts(pair: u32) -> ModifyQp {
    ModifyQp {
        qp_handle: pair,
        attr_mask: QpAttrMask::new()
            .with_state(true)
            .with_timeout(true)
            .with_retry_cnt(true)
            .with_rnr_retry(true)
            .with_sq_psn(true)
            .with_max_rd_atomic(true),
        qp_state: QpState::ReadyToSend.code(),
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        sq_psn: 0xff_fffe,
        max_rd_atomic: 16,
        ..ModifyQp::new_zeroed()
    }
}

impl Pair {
    /// A queue pair that was made otherwise. `sizes` are receives, bytes of a receive, and slots;
    /// `record` is where in the memory its record is.
    pub fn by_hand(
        handle: u32,
        number: u32,
        memory: Arc<VirtualMemory>,
        register: VirtualRegister,
        sizes: [usize; 3],
        record: usize,
    ) -> Self {
        let [receives, stride, slots] = sizes;
        Pair {
            handle,
            number,
            memory,
            register,
            posted: 0,
            received: 0,
            slots: slots as u32,
            receives: receives as u32,
            stride,
            record,
        }
    }

    fn send_offset(&self, slot: u16) -> usize {
        let ring = self.receives as usize * self.stride;
        ring + (u32::from(slot) & (self.slots - 1)) as usize * 64
    }

    /// Writes an entry's bytes into the ring, slot by slot. The NIC is not told.
    pub fn write(&mut self, entry: &[u8]) -> u16 {
        let index = self.posted;
        for (slot, bytes) in (0..).zip(entry.chunks(64)) {
            store(&self.memory, self.send_offset(index.wrapping_add(slot)), bytes);
        }
        self.posted = index.wrapping_add(entry.len().div_ceil(64) as u16);
        index
    }

    /// Writes the send counter into the record.
    pub fn publish(&self) {
        let counter = CounterWord::new().with_counter(self.posted);
        word(&self.memory, self.record + 4).store(counter.to_memory(), Ordering::Release);
    }

    /// Rings the register for the entry at `index`.
    pub fn ring(&self, index: u16) {
        let control = load(&self.memory, self.send_offset(index), 8);
        let value = u64::from_ne_bytes(control.try_into().unwrap());
        // SAFETY: R1: the register is a whole send register.
        unsafe { self.register.store(0, value) };
    }

    /// Posts an entry: bytes, record, register.
    pub fn post(&mut self, entry: &[u8]) -> u16 {
        let index = self.write(entry);
        self.publish();
        self.ring(index);
        index
    }

    /// The control segment of the next entry.
    pub fn control(&self, opcode: Opcode, segments: u8) -> ControlSegment {
        let flags = ControlFlags::of(CompletionMode::Always, false, FenceMode::None);
        self.control_with(opcode, segments, flags, 0)
    }

    pub fn control_with(
        &self,
        opcode: Opcode,
        segments: u8,
        flags: ControlFlags,
        immediate: u32,
    ) -> ControlSegment {
        let number = U24::truncate(self.number);
        ControlSegment::new(opcode, self.posted, number, segments, flags, immediate)
    }

    /// A signaled write of one piece.
    pub fn write_entry(&self, from: DataSegment, address: u64, rkey: u32) -> Vec<u8> {
        let mut entry = self.control(Opcode::Write, 3).as_bytes().to_vec();
        entry.extend_from_slice(RemoteAddressSegment::new(address, rkey).as_bytes());
        entry.extend_from_slice(from.as_bytes());
        entry
    }

    /// A signaled send of one piece.
    pub fn send_entry(&self, from: DataSegment) -> Vec<u8> {
        let mut entry = self.control(Opcode::Send, 2).as_bytes().to_vec();
        entry.extend_from_slice(from.as_bytes());
        entry
    }

    /// Posts a receive of the given segments, with a terminator if there is room for one.
    pub fn receive(&mut self, segments: &[DataSegment]) {
        let mut bytes = segments.as_bytes().to_vec();
        if bytes.len() < self.stride {
            bytes.extend_from_slice(DataSegment::TERMINATOR.as_bytes());
        }
        let at = (u32::from(self.received) & (self.receives - 1)) as usize * self.stride;
        store(&self.memory, at, &bytes);
        self.received = self.received.wrapping_add(1);
        let counter = CounterWord::new().with_counter(self.received);
        word(&self.memory, self.record).store(counter.to_memory(), Ordering::Release);
    }
}

/// Everything of one side: a NIC, a region of 64 KiB, a completion queue and a queue pair.
///
/// The file, which registers hold open, is closed before any memory goes: that is the order of the
/// fields.
pub struct Side {
    pub client: Client,
    pub pair: Pair,
    pub queue: Queue,
    pub memory: VirtualMemory,
    pub key: u32,
    pub domain: u32,
    pub page: (u32, u64),
    /// The memory of both rings, until the registers of both are gone.
    pub rings: [Arc<VirtualMemory>; 2],
}

impl Side {
    pub fn new(network: &Network, queue: &QueueOptions, pair: &PairOptions) -> Self {
        Self::of(Client::new(network), queue, pair)
    }

    pub fn of(client: Client, queue: &QueueOptions, pair: &PairOptions) -> Self {
        let domain = client.domain();
        let (_, page, offset) = client.uar();
        let page = (page, offset);
        let memory = client.memory(65536);
        let key = client.region(domain, &memory, all_rights());
        let queue = client.queue(page, queue);
        let pair = client.pair(domain, page, queue.handle, pair);
        let rings = [Arc::clone(&pair.memory), Arc::clone(&queue.memory)];
        Side { client, pair, queue, memory, key, domain, page, rings }
    }

    /// A piece of this side's region.
    pub fn piece(&self, at: usize, length: u32) -> DataSegment {
        DataSegment::new(address(&self.memory) + at as u64, self.key, length)
    }

    pub fn address(&self, at: usize) -> u64 {
        address(&self.memory) + at as u64
    }
}

/// Every right on memory.
pub fn all_rights() -> AccessFlags {
    peer_rights().with_local_write(true)
}

/// Every right of a peer.
pub fn peer_rights() -> AccessFlags {
    AccessFlags::new().with_remote_write(true).with_remote_read(true).with_remote_atomic(true)
}

/// Connects two sides.
pub fn connect(a: &Side, b: &Side) {
    for (this, peer) in [(a, b), (b, a)] {
        this.client.to_init(this.pair.handle, peer_rights()).unwrap();
        this.client.to_rtr(this.pair.handle, peer.pair.number, peer.client.gid()).unwrap();
        this.client.to_rts(this.pair.handle).unwrap();
    }
}

/// Two connected sides on a stepped network.
pub fn connected(seed: u64) -> (Network, Side, Side) {
    let network = Network::stepped(seed);
    let [a, b] =
        [(); 2].map(|()| Side::new(&network, &QueueOptions::default(), &PairOptions::default()));
    connect(&a, &b);
    (network, a, b)
}
