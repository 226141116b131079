//! Anything at all: ring bytes, records, register stores and commands that make no sense. The NIC
//! and the kernel answer, and go on.

use crate::client::*;
use crate::side::*;
use doorbell::mlx5::abi::driver;
use doorbell::mlx5::abi::verbs::ioctl::{Attribute, Header};
use doorbell::mlx5::abi::verbs::method::{self, Method, UHW_IN, UHW_OUT};
use doorbell::mlx5::abi::verbs::qp::QpCap;
use doorbell::mlx5::abi::verbs::write;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::mmio::Register;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::VirtualMemory;
use zerocopy::{FromZeros, IntoBytes};

/// Numbers from a seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn any_bytes_in_rings_and_records_end_in_completions_or_nothing() {
    for seed in 1..120u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (network, mut a, mut b) = connected(seed);
        for _ in 0..40 {
            match numbers.below(6) {
                // An entry that is right but for some bytes.
                0 | 1 => {
                    let mut entry = a.pair.write_entry(a.piece(0, 64), b.address(0), b.key);
                    entry.resize(64, 0);
                    for _ in 0..numbers.below(3) {
                        let at = numbers.below(64) as usize;
                        entry[at] = numbers.next() as u8;
                    }
                    a.pair.post(&entry);
                }
                2 => {
                    let bytes = numbers.bytes(64);
                    a.pair.post(&bytes);
                }
                3 => {
                    let bytes = numbers.bytes(a.pair.memory.len());
                    store(&a.pair.memory, 0, &bytes);
                }
                4 => {
                    b.pair.receive(&[b.piece(numbers.below(65536) as usize, numbers.next() as u32)])
                }
                _ => {
                    let slot = std::array::from_fn(|_| numbers.next());
                    let at = numbers.below(8) as usize * 64;
                    // SAFETY: R1: inside the send register.
                    unsafe {
                        a.pair.register.copy(at, &slot);
                        a.pair.register.store(at, numbers.next());
                        a.queue.register.store(0, numbers.next());
                    }
                }
            }
            if numbers.below(3) == 0 {
                settle(&network);
                a.queue.drain();
                b.queue.drain();
            }
        }
        settle(&network);
    }
}

/// Commands that make sense, whose inputs lie in `room`, from `at` on, 256 bytes each.
fn sensible(room: &VirtualMemory, rings: u64, page: u32) -> Vec<(Method, Vec<Attribute>)> {
    let mut at = 0;
    let mut place = |bytes: &[u8]| {
        store(room, at, bytes);
        at += 256;
        (address(room) + (at - 256) as u64, bytes.len() as u16)
    };
    let answer = address(room) + (1 << 15);
    let output = |id, len| Attribute::output_at(id, answer, len);
    let queue = driver::CreateCq {
        buf_addr: rings,
        db_addr: rings + 4096,
        cqe_size: 64,
        flags: driver::CreateCqFlags::new().with_uar_page_index(true),
        uar_page_index: page as u16,
        ..driver::CreateCq::new_zeroed()
    };
    let pair = driver::CreateQp {
        buf_addr: rings,
        db_addr: rings + 4096,
        sq_wqe_count: 16,
        rq_wqe_count: 8,
        rq_wqe_shift: 6,
        flags: driver::CreateQpFlags::new().with_uar_page_index(true),
        bfreg_index: page,
        ..driver::CreateQp::new_zeroed()
    };
    let region = write::RegMr {
        start: rings,
        length: 8192,
        hca_va: rings,
        access_flags: all_rights(),
        ..write::RegMr::new_zeroed()
    };
    let cap = QpCap { max_send_wr: 16, max_recv_wr: 8, ..QpCap::default() };
    let input = |id, (address, len): (u64, u16)| Attribute::input_at(id, address, len);
    use method::{create_cq, create_qp, invoke_write};
    let mut commands = vec![
        (
            method::device::INVOKE_WRITE,
            vec![
                Attribute::input_u64(invoke_write::WRITE_CMD, 3),
                Attribute::input_u64(invoke_write::CORE_IN, 0),
                output(invoke_write::CORE_OUT, 4),
                output(UHW_OUT, 4),
            ],
        ),
        (
            method::device::INVOKE_WRITE,
            vec![
                Attribute::input_u64(invoke_write::WRITE_CMD, 9),
                input(invoke_write::CORE_IN, place(region.as_bytes())),
                output(invoke_write::CORE_OUT, 12),
            ],
        ),
        (
            method::cq::CREATE,
            vec![
                Attribute::new_handle(create_cq::HANDLE),
                Attribute::input_u32(create_cq::CQE, 15),
                Attribute::input_u64(create_cq::USER_HANDLE, 1),
                Attribute::input_u32(create_cq::COMP_VECTOR, 0),
                output(create_cq::RESP_CQE, 4),
                input(UHW_IN, place(queue.as_bytes())),
                output(UHW_OUT, 8),
            ],
        ),
        (
            method::qp::CREATE,
            vec![
                Attribute::new_handle(create_qp::HANDLE),
                Attribute::handle(create_qp::PD_HANDLE, 0),
                Attribute::handle(create_qp::SEND_CQ_HANDLE, 2),
                Attribute::handle(create_qp::RECV_CQ_HANDLE, 2),
                Attribute::input_u64(create_qp::USER_HANDLE, 1),
                input(create_qp::CAP, place(cap.as_bytes())),
                Attribute::input_u64(create_qp::TYPE, 2),
                output(create_qp::RESP_CAP, 20),
                output(create_qp::RESP_QP_NUM, 4),
                input(UHW_IN, place(pair.as_bytes())),
                output(UHW_OUT, 40),
            ],
        ),
    ];
    let base = rtr(3, 0x77, [7; 16]);
    for request in [base, rts(3)] {
        commands.push((
            method::device::INVOKE_WRITE,
            vec![
                Attribute::input_u64(invoke_write::WRITE_CMD, 26),
                input(invoke_write::CORE_IN, place(request.as_bytes())),
            ],
        ));
    }
    for method in [method::pd::DESTROY, method::mr::DESTROY, driver::uar::DESTROY] {
        let id = if method == driver::uar::DESTROY { 0x1000 } else { 0 };
        commands.push((method, vec![Attribute::handle(id, 5)]));
    }
    for method in [method::cq::DESTROY, method::qp::DESTROY] {
        commands.push((method, vec![Attribute::handle(0, 5), output(1, 8)]));
    }
    commands
}

#[test]
fn commands_with_a_few_wrong_bytes_are_answered_and_leave_nothing_behind() {
    let network = Network::stepped(0);
    let client = Client::new(&network);
    let (room, rings) = (client.memory(1 << 17), client.memory(8192));
    // Handle 0 a domain, 1 a register page, 2 a completion queue.
    client.domain();
    let (_, page, offset) = client.uar();
    let queue = client.queue((page, offset), &QueueOptions::default());
    assert_eq!(queue.handle, 2);
    let mut numbers = Numbers(7);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..8_000 {
        let commands = sensible(&room, address(&rings), page);
        let (method, mut attributes) =
            commands[numbers.below(commands.len() as u64) as usize].clone();
        // Bytes of the inputs.
        if numbers.below(2) == 0 {
            let at = numbers.below(256 * 6) as usize;
            store(&room, at, &[numbers.next() as u8]);
        }
        // A field of an attribute. Addresses stay inside the room, and lengths below its half.
        let count = attributes.len() as u64;
        let attribute = &mut attributes[numbers.below(count) as usize];
        match numbers.below(12) {
            0 => attribute.attr_id ^= 1 << numbers.below(14),
            1 => attribute.len = numbers.next() as u16,
            2 => attribute.flags ^= 1,
            3 => attribute.attr_data = 1,
            4 => attribute.data = numbers.below(12),
            5 => attribute.data = address(&room) + numbers.below(1 << 16),
            _ => {}
        }
        let mut command = command(method, &attributes);
        if numbers.below(50) == 0 {
            let at = numbers.below(size_of::<Header>() as u64) as usize;
            command.as_mut_bytes()[at] = numbers.next() as u8;
        }
        match client.call(&mut command) {
            Ok(()) => accepted += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
    let control = client.control.clone();
    drop(client);
    drop((room, rings, queue));
    assert_eq!(control.objects().total(), 0);
    control.network().with_nic(control.nic(), |nic, _, _| assert_eq!(nic.objects(), [0; 5]));
}
