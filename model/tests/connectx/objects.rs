//! Objects: what they are made of, what stands on what, and what is refused.

use crate::client::*;
use crate::side::*;
use doorbell::mlx5::abi::driver::{self, CreateCq, CreateQp};
use doorbell::mlx5::abi::verbs::AccessFlags;
use doorbell::mlx5::abi::verbs::ioctl::Attribute;
use doorbell::mlx5::abi::verbs::method;
use doorbell::mlx5::abi::verbs::qp::QpCap;
use doorbell::mlx5::abi::verbs::write::RegMr;
use doorbell_hal::Errno;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::VirtualMemory;
use zerocopy::{FromZeros, IntoBytes};

fn client() -> Client {
    Client::new(&Network::stepped(0))
}

fn region_request(client: &Client, memory: &VirtualMemory) -> RegMr {
    RegMr {
        start: address(memory),
        length: memory.len() as u64,
        hca_va: address(memory),
        pd_handle: client.domain(),
        access_flags: all_rights(),
        ..RegMr::new_zeroed()
    }
}

#[test]
fn a_region_needs_memory_that_is_there_and_rights_that_make_sense() {
    // `ib_uverbs_reg_mr`, `ib_check_mr_access`, `ib_umem_get`.
    let client = client();
    let memory = client.memory(8192);
    let good = region_request(&client, &memory);
    client.register(&good).unwrap();
    let refusal = |change: &dyn Fn(&mut RegMr)| {
        let mut request = good;
        change(&mut request);
        client.register(&request).err()
    };
    assert_eq!(refusal(&|r| r.hca_va += 1), Some(Errno::EINVAL), "another offset in the page");
    assert_eq!(refusal(&|r| r.hca_va = 0), None, "an address of its own");
    assert_eq!(refusal(&|r| r.pd_handle = 77), Some(Errno::ENOENT));
    assert_eq!(refusal(&|r| r.length = 0), Some(Errno::EINVAL));
    assert_eq!(refusal(&|r| r.length = u64::MAX), Some(Errno::EINVAL), "wraps around");
    assert_eq!(refusal(&|r| r.length = 1 << 40), Some(Errno::EFAULT), "more than is mapped");
    let access = |bits: u32| refusal(&|r| r.access_flags = bits.into());
    assert_eq!(access(0), None, "local reading");
    assert_eq!(access(2), Some(Errno::EINVAL), "remote write without local write");
    assert_eq!(access(8), Some(Errno::EINVAL), "remote atomic without local write");
    assert_eq!(access(4), None, "remote read alone");
    assert_eq!(access(1 | 1 << 20), None, "relaxed ordering");
    assert_eq!(access(1 | 1 << 21), None, "an optional flag that nobody knows");
    assert_eq!(access(1 | 1 << 10), Some(Errno::EINVAL), "a flag that nobody knows");
    assert_eq!(access(1 | 1 << 6), Some(Errno::EOPNOTSUPP), "on demand");
    let queue_handle = {
        let (_, page, offset) = client.uar();
        client.queue((page, offset), &QueueOptions::default()).handle
    };
    assert_eq!(refusal(&|r| r.pd_handle = queue_handle), Some(Errno::EINVAL), "another kind");
}

#[test]
fn constant_memory_can_be_registered_for_reading_only() {
    static WORDS: [u64; 1024] = [1; 1024];
    let client = client();
    let start = WORDS.as_ptr() as u64;
    let request = RegMr {
        start,
        length: 4096,
        hca_va: start,
        pd_handle: client.domain(),
        ..RegMr::new_zeroed()
    };
    client.register(&request).unwrap();
    let write = RegMr { access_flags: AccessFlags::new().with_local_write(true), ..request };
    assert_eq!(client.register(&write).err(), Some(Errno::EFAULT));
}

#[test]
fn the_locked_memory_limit_is_enomem_and_destroying_gives_back() {
    // `ib_umem_get`, RLIMIT_MEMLOCK.
    let network = Network::stepped(0);
    let file = VirtualConnectx::builder().network(&network).locked_memory(3 * 4096).open();
    let client = Client::of(file);
    client.get_context(&dynamic_context()).unwrap();
    let memory = client.memory(8192);
    let request = region_request(&client, &memory);
    let first = client.register(&request).unwrap();
    assert_eq!(client.control.objects().pinned, 8192);
    assert_eq!(client.register(&request).err(), Some(Errno::ENOMEM));
    assert_eq!(client.control.objects().pinned, 8192);
    client.destroy(method::mr::DESTROY, 0, first.mr_handle, &mut []).unwrap();
    assert_eq!(client.control.objects().pinned, 0);
    client.register(&request).unwrap();
}

#[test]
fn a_region_answers_with_what_it_is() {
    // `UVERBS_METHOD_QUERY_MR`.
    use method::query_mr as id;
    let client = client();
    let memory = client.memory(8192);
    let request = RegMr { hca_va: 0x7000_0000, ..region_request(&client, &memory) };
    let region = client.register(&request).unwrap();
    assert_eq!(region.lkey, region.rkey);
    let (mut lkey, mut rkey, mut length, mut iova) = ([0; 4], [0; 4], [0; 8], [0; 8]);
    let attributes = [
        Attribute::handle(id::HANDLE, region.mr_handle),
        output(id::RESP_LKEY, &mut lkey),
        output(id::RESP_RKEY, &mut rkey),
        output(id::RESP_LENGTH, &mut length),
        output(id::RESP_IOVA, &mut iova),
    ];
    client.call(&mut command(method::mr::QUERY, &attributes)).unwrap();
    assert_eq!(u32::from_ne_bytes(lkey), region.lkey);
    assert_eq!(u32::from_ne_bytes(rkey), region.rkey);
    assert_eq!(u64::from_ne_bytes(length), 8192);
    assert_eq!(u64::from_ne_bytes(iova), 0x7000_0000);
}

#[test]
fn a_domain_with_regions_and_a_queue_with_pairs_are_busy() {
    // `uverbs_free_pd`, `ib_destroy_cq_user`.
    let side = Side::new(&Network::stepped(0), &QueueOptions::default(), &PairOptions::default());
    let client = &side.client;
    let destroy_domain = || client.destroy(method::pd::DESTROY, 0, side.domain, &mut []);
    assert_eq!(destroy_domain(), Err(Errno::EBUSY));
    assert_eq!(client.destroy_queue(side.queue.handle), Err(Errno::EBUSY));
    client.destroy_pair(side.pair.handle).unwrap();
    assert_eq!(client.destroy_pair(side.pair.handle), Err(Errno::ENOENT), "a second time");
    client.destroy_queue(side.queue.handle).unwrap();
    assert_eq!(destroy_domain(), Err(Errno::EBUSY), "the region is left");
    let wrong_kind = client.destroy(method::mr::DESTROY, 0, side.domain, &mut []);
    assert_eq!(wrong_kind, Err(Errno::EINVAL));
    // Handles: domain 0, page 1, region 2.
    client.destroy(method::mr::DESTROY, 0, 2, &mut []).unwrap();
    destroy_domain().unwrap();
}

#[test]
fn the_lowest_free_handle_is_used_next() {
    // `xa_alloc`.
    let client = client();
    let handles = [client.domain(), client.domain(), client.domain()];
    assert_eq!(handles, [0, 1, 2]);
    client.destroy(method::pd::DESTROY, 0, 1, &mut []).unwrap();
    assert_eq!(client.domain(), 1);
    assert_eq!(client.domain(), 3);
}

/// A client with what completion queues and queue pairs need.
struct Bench {
    client: Client,
    page: (u32, u64),
    memory: VirtualMemory,
}

impl Bench {
    fn new() -> Self {
        let client = client();
        let (_, page, offset) = client.uar();
        let memory = client.memory(65536);
        Bench { client, page: (page, offset), memory }
    }

    fn queue_request(&self) -> CreateCq {
        CreateCq {
            buf_addr: address(&self.memory),
            db_addr: address(&self.memory) + 32768,
            cqe_size: 64,
            flags: driver::CreateCqFlags::new().with_uar_page_index(true),
            uar_page_index: self.page.0 as u16,
            ..CreateCq::new_zeroed()
        }
    }

    fn queue(&self, entries: u32, change: impl Fn(&mut CreateCq)) -> Result<u32, Errno> {
        let mut request = self.queue_request();
        change(&mut request);
        let options = QueueOptions { entries, ..QueueOptions::default() };
        let made = self.client.create_queue(&options, request.as_bytes());
        made.map(|(_, _, entries)| entries)
    }
}

#[test]
fn a_completion_queue_has_the_next_power_of_two_entries_less_one() {
    // `mlx5_ib_create_cq`.
    let bench = Bench::new();
    assert_eq!(bench.queue(1, |_| ()), Ok(1));
    assert_eq!(bench.queue(2, |_| ()), Ok(3));
    assert_eq!(bench.queue(3, |_| ()), Ok(3));
    assert_eq!(bench.queue(4, |_| ()), Ok(7));
    assert_eq!(bench.queue(0, |_| ()), Ok(0));
    assert_eq!(bench.queue(1 << 22, |_| ()), Err(Errno::EINVAL));
    assert_eq!(bench.queue((1 << 22) + 1, |_| ()), Err(Errno::EINVAL));
    let unmapped = bench.queue((1 << 22) - 1, |_| ());
    assert_eq!(unmapped, Err(Errno::EFAULT), "the ring is not all mapped");
}

#[test]
fn the_driver_part_of_a_completion_queue_is_checked() {
    // `create_cq_user`.
    let bench = Bench::new();
    let refusal = |change: fn(&mut CreateCq)| bench.queue(7, change).err();
    assert_eq!(refusal(|r| r.cqe_size = 32), Some(Errno::EINVAL));
    assert_eq!(refusal(|r| r.cqe_size = 128), None);
    assert_eq!(refusal(|r| r.reserved0 = 1), Some(Errno::EINVAL));
    assert_eq!(refusal(|r| r.reserved1 = 1), Some(Errno::EINVAL));
    assert_eq!(refusal(|r| r.flags = 0x10.into()), Some(Errno::EINVAL));
    assert_eq!(refusal(|r| r.flags = 0.into()), Some(Errno::EINVAL), "no page, none to choose");
    assert_eq!(refusal(|r| r.uar_page_index = 0xfff), Some(Errno::EINVAL), "no such page");
    assert_eq!(refusal(|r| r.buf_addr += 32), Some(Errno::EINVAL), "not at a multiple of 64");
    assert_eq!(refusal(|r| r.buf_addr = 64), Some(Errno::EFAULT));
    assert_eq!(refusal(|r| r.db_addr = 64), Some(Errno::EFAULT));
    assert_eq!(refusal(|r| r.cqe_comp_en = 1), Some(Errno::EOPNOTSUPP));
    let options = QueueOptions { entries: 7, ..QueueOptions::default() };
    let short = bench.client.create_queue(&options, &bench.queue_request().as_bytes()[..20]);
    assert_eq!(short, Err(Errno::EINVAL));
    let pinned = bench.client.control.objects().pinned;
    let alive = bench.client.control.objects().completion_queues;
    assert_eq!((alive, pinned), (1, 4096 + 4096), "refusals leave nothing behind");
}

#[test]
fn an_event_file_must_be_one_of_this_file_and_of_the_right_kind() {
    // `lookup_get_fd_uobject`.
    let bench = Bench::new();
    let (channel, events) = bench.client.event_files();
    let request = bench.queue_request();
    let make = |channel, events| {
        let options = QueueOptions { channel, events, ..QueueOptions::default() };
        bench.client.create_queue(&options, request.as_bytes()).err()
    };
    assert_eq!(make(Some(channel), Some(events)), None);
    assert_eq!(make(Some(events), None), Some(Errno::EBADF));
    assert_eq!(make(None, Some(channel)), Some(Errno::EBADF));
    assert_eq!(make(Some(0), None), Some(Errno::EBADF));
    drop(bench.client.take_event_files((channel, events)));
    assert_eq!(make(Some(channel), None), Some(Errno::EBADF), "closed");
}

/// Makes a queue pair after a change of what is asked.
fn pair_refusal(bench: &Bench, change: impl Fn(&mut CreateQp, &mut QpCap)) -> Option<Errno> {
    let domain = bench.client.domain();
    let queue = bench.client.queue(bench.page, &QueueOptions::default());
    let mut request =
        bench.client.pair_request(&bench.memory, bench.page.0, &PairOptions::default());
    let mut cap = QpCap {
        max_send_wr: 16,
        max_recv_wr: 8,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    change(&mut request, &mut cap);
    let made = bench.client.create_pair(domain, [queue.handle; 2], cap, None, request.as_bytes());
    match made {
        Ok((handle, _)) => {
            bench.client.destroy_pair(handle).unwrap();
            None
        }
        Err(errno) => Some(errno),
    }
}

#[test]
fn the_driver_part_of_a_queue_pair_is_checked() {
    // `process_vendor_flags`, `get_qp_user_index`, `set_rq_size`, `set_user_buf_size`,
    // `_create_user_qp`.
    let bench = Bench::new();
    let refusal = |change: fn(&mut CreateQp, &mut QpCap)| pair_refusal(&bench, change);
    let invalid = Some(Errno::EINVAL);
    assert_eq!(refusal(|_, _| ()), None);
    assert_eq!(refusal(|r, _| r.sq_wqe_count = 15), invalid, "not a power of two");
    assert_eq!(refusal(|r, _| r.sq_wqe_count = 1 << 16), invalid, "more than the device holds");
    assert_eq!(refusal(|_, c| c.max_recv_wr = (1 << 15) + 1), invalid);
    assert_eq!(refusal(|r, _| r.rq_wqe_shift = 31), invalid);
    assert_eq!(refusal(|r, _| r.rq_wqe_shift = 3), invalid, "less than a segment");
    assert_eq!(refusal(|r, _| r.rq_wqe_shift = 10), invalid, "more than the device's entries");
    assert_eq!(refusal(|_, c| c.max_recv_wr = 0), invalid, "a ring that was not asked for");
    let no_receives = |r: &mut CreateQp, c: &mut QpCap| {
        (c.max_recv_wr, r.rq_wqe_count, r.rq_wqe_shift) = (0, 0, 0);
    };
    assert_eq!(refusal(no_receives), None);
    assert_eq!(refusal(|r, _| r.uidx = 0xff_ffff), invalid, "the index that stands for none");
    assert_eq!(refusal(|r, _| r.uidx = 1 << 24), invalid);
    assert_eq!(refusal(|r, _| r.reserved = 1), invalid);
    assert_eq!(refusal(|r, _| r.flags = 0.into()), invalid, "no register page");
    let both = |r: &mut CreateQp, _: &mut QpCap| r.flags = (1 << 3 | 1 << 10).into();
    assert_eq!(refusal(both), invalid, "a register and a page");
    assert_eq!(refusal(|r, _| r.flags = (1 << 10 | 1 << 4).into()), invalid, "DCT");
    assert_eq!(refusal(|r, _| r.flags = (1 << 10 | 1 << 1).into()), None, "scatter is ignored");
    assert_eq!(refusal(|r, _| r.bfreg_index = 0xffff), invalid, "no such page");
    assert_eq!(refusal(|r, _| r.buf_addr = 0), invalid);
    assert_eq!(refusal(|r, _| r.buf_addr += 16), invalid);
    assert_eq!(refusal(|r, _| r.buf_addr = 64), Some(Errno::EFAULT));
    assert_eq!(refusal(|r, _| r.db_addr = 64), Some(Errno::EFAULT));
    assert_eq!(refusal(|r, _| r.db_addr += 4), invalid, "a record is 8 bytes");
}

#[test]
fn the_largest_and_the_smallest_rings_can_be_made() {
    let client = client();
    let (_, page, offset) = client.uar();
    let domain = client.domain();
    let queue = client.queue((page, offset), &QueueOptions::default());
    for (slots, receives, stride_shift) in
        [(1, 0, 4), (1, 4, 4), (1 << 15, 1 << 15, 4), (64, 1 << 10, 9), (0, 4, 4)]
    {
        let options = PairOptions { slots, receives, stride_shift, ..PairOptions::default() };
        let pair = client.pair(domain, (page, offset), queue.handle, &options);
        client.destroy_pair(pair.handle).unwrap();
    }
}

#[test]
fn closing_the_file_and_its_last_mapping_destroys_everything() {
    let network = Network::stepped(0);
    let side = Side::new(&network, &QueueOptions::default(), &PairOptions::default());
    let control = side.client.control.clone();
    let files = side.client.event_files();
    let other = Client::of(side.client.file.open_again());
    other.get_context(&dynamic_context()).unwrap();
    other.domain();
    let objects = control.objects();
    assert_eq!((objects.contexts, objects.queue_pairs, objects.protection_domains), (2, 1, 2));
    assert_eq!((objects.regions, objects.completion_queues, objects.register_pages), (1, 1, 1));
    assert!(files.0 > 0 && objects.pinned > 0);
    let Side { client, pair, queue, memory, rings, .. } = side;
    drop(client.file);
    assert_eq!(control.objects(), objects, "a mapped register page holds the file open");
    drop((pair, queue));
    let objects = control.objects();
    assert_eq!((objects.contexts, objects.queue_pairs, objects.protection_domains), (1, 0, 1));
    assert_eq!((objects.pinned, objects.event_files), (0, 0));
    drop((memory, rings));
    drop(other);
    assert_eq!(control.objects().total(), 0);
    control.network().with_nic(control.nic(), |nic, _, _| assert_eq!(nic.objects(), [0; 5]));
}

#[test]
fn a_register_page_stays_with_the_nic_while_it_is_mapped() {
    // `mlx5_ib_mmap_free`: the page goes back when nothing maps it any more.
    let client = client();
    let (handle, page, offset) = client.uar();
    let pages = |control: &doorbell_model::kernel::Control| {
        control.network().with_nic(control.nic(), |nic, _, _| nic.objects()[4]).unwrap()
    };
    let mapped = client.file.map(offset, 4096).unwrap();
    client.destroy(driver::uar::DESTROY, driver::uar_destroy::HANDLE, handle, &mut []).unwrap();
    assert_eq!(pages(&client.control), 1);
    assert_eq!(client.file.map(offset, 4096).err(), Some(Errno::EINVAL));
    drop(mapped);
    assert_eq!(pages(&client.control), 0);
    let again = client.uar();
    assert_eq!((again.1, again.2), (page, offset), "both are free again");
}

#[test]
fn pages_are_mapped_whole_and_only_where_the_kernel_said() {
    let client = client();
    let (_, _, offset) = client.uar();
    assert_eq!(offset, 0x90_0000);
    assert_eq!(client.uar().2, 0x90_1000);
    assert_eq!(client.try_uar(2), Err(Errno::EOPNOTSUPP));
    for (at, length) in
        [(offset, 8192), (offset, 0), (offset + 8, 4096), (0, 4096), (1 << 20, 4096)]
    {
        assert_eq!(client.file.map(at, length).err(), Some(Errno::EINVAL), "{at:#x}, {length}");
    }
}

#[test]
fn the_nic_without_blue_flame_has_no_write_combining_pages() {
    let capabilities =
        doorbell_model::connectx::Capabilities { blue_flame: false, ..Default::default() };
    let network = Network::stepped(0);
    let file = VirtualConnectx::builder().network(&network).capabilities(capabilities).open();
    let client = Client::of(file);
    assert_eq!(client.get_context(&dynamic_context()).unwrap().bf_reg_size, 0);
    assert_eq!(client.try_uar(0), Err(Errno::EOPNOTSUPP));
    client.try_uar(1).unwrap();
}
