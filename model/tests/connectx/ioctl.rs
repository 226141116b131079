//! The rules of the ioctl itself (`drivers/infiniband/core/uverbs_ioctl.c`).

use crate::client::*;
use doorbell::mlx5::abi::event::AsyncEvent;
use doorbell::mlx5::abi::verbs::ioctl::{Attribute, Header, MANDATORY, VALID_OUTPUT};
use doorbell::mlx5::abi::verbs::method::{self, Method, UHW_IN, UHW_OUT};
use doorbell::mlx5::abi::verbs::port::{GidEntry, GidType, LinkLayer, PortState, QueryPortRespEx};
use doorbell::mlx5::abi::verbs::write::{self, WriteCommand};
use doorbell_hal::Errno;
use doorbell_model::connectx::Network;
use zerocopy::{FromZeros, IntoBytes};

fn client() -> Client {
    Client::new(&Network::stepped(0))
}

fn query_port(room: &mut [u8]) -> Vec<u64> {
    let port = Attribute::input_u64(method::query_port::PORT_NUM, 1);
    command(method::device::QUERY_PORT, &[port, output(method::query_port::RESP, room)])
}

#[test]
fn the_header_is_checked_before_anything_else() {
    // `ib_uverbs_ioctl`, `ib_uverbs_cmd_verbs`.
    let client = client();
    let mut room = [0; 48];
    let good = query_port(&mut room);
    client.call(&mut good.clone()).unwrap();
    let change = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad.as_mut_bytes()[at..at + bytes.len()].copy_from_slice(bytes);
        client.call(&mut bad)
    };
    let too_long = change(0, &57u16.to_ne_bytes());
    assert_eq!(too_long, Err(Errno::EINVAL), "a length that does not fit the attributes");
    assert_eq!(change(6, &3u16.to_ne_bytes()), Err(Errno::EINVAL), "more attributes than length");
    assert_eq!(change(8, &1u64.to_ne_bytes()), Err(Errno::EPROTONOSUPPORT), "reserved1");
    assert_eq!(change(20, &1u32.to_ne_bytes()), Err(Errno::EPROTONOSUPPORT), "reserved2");
    assert_eq!(change(16, &6u32.to_ne_bytes()), Err(Errno::EINVAL), "another driver");
    assert_eq!(change(2, &99u16.to_ne_bytes()), Err(Errno::EPROTONOSUPPORT), "no such object");
    assert_eq!(change(4, &99u16.to_ne_bytes()), Err(Errno::EPROTONOSUPPORT), "no such method");
    assert_eq!(client.call(&mut []), Err(Errno::EFAULT));
    assert_eq!(client.call(&mut good[..5].to_vec()), Err(Errno::EFAULT), "less than it says");
    let many = Header::new(method::device::QUERY_PORT, 255).unwrap();
    assert_eq!(many.length, 4104);
    let mut many_words = command(method::device::QUERY_PORT, &[Attribute::default(); 255]);
    assert_eq!(client.call(&mut many_words), Err(Errno::EINVAL), "more than a page");
}

#[test]
fn attributes_are_known_or_optional_once_and_of_the_right_length() {
    // `uverbs_set_attr`, `uverbs_process_attr`.
    let client = client();
    let mut room = [0; 48];
    let port = Attribute::input_u64(method::query_port::PORT_NUM, 1);
    let answer = output(method::query_port::RESP, &mut room);
    let call = |attributes: &[Attribute]| {
        client.call(&mut command(method::device::QUERY_PORT, attributes))
    };
    call(&[port, answer]).unwrap();
    let unknown = Attribute::input_u64(77, 0);
    assert_eq!(call(&[port, answer, unknown]), Err(Errno::EPROTONOSUPPORT));
    call(&[port, answer, unknown.optional()]).unwrap();
    assert_eq!(call(&[port, answer, port]), Err(Errno::EINVAL), "twice the same");
    assert_eq!(call(&[port]), Err(Errno::EINVAL), "a mandatory one is missing");
    let short = Attribute { len: 4, ..port };
    assert_eq!(call(&[short, answer]), Err(Errno::EINVAL), "a constant has 8 bytes");
    let long = Attribute { len: 12, ..port };
    assert_eq!(call(&[long, answer]), Err(Errno::EINVAL), "and no more");
    let reserved = Attribute { attr_data: 1, ..port };
    assert_eq!(call(&[reserved, answer]), Err(Errno::EINVAL));
    let narrow = Attribute { len: 47, ..answer };
    assert_eq!(call(&[port, narrow]), Err(Errno::EINVAL), "no room for the answer");
    let nowhere = Attribute { data: 8, ..answer };
    assert_eq!(call(&[port, nowhere]), Err(Errno::EFAULT));
    assert_eq!(call(&[Attribute::input_u64(0, 2), answer]), Err(Errno::EINVAL), "port 2");
    assert_eq!(call(&[Attribute::input_u64(0, 257), answer]), Err(Errno::EINVAL), "more than a u8");
}

#[test]
fn an_answer_is_marked_and_zero_padded() {
    // `uverbs_copy_to_struct_or_zero`, `uverbs_set_output`.
    let client = client();
    let mut room = [0xff; 64];
    let mut bytes = query_port(&mut room);
    assert_eq!(attribute(&bytes, 1).flags, MANDATORY);
    client.call(&mut bytes).unwrap();
    assert_eq!(attribute(&bytes, 1).flags, MANDATORY | VALID_OUTPUT);
    assert_eq!(room[48..], [0; 16]);
    let answer: QueryPortRespEx = record(&room[..48]);
    assert_eq!(answer.legacy_resp.state, PortState::Active.code());
    assert_eq!(answer.legacy_resp.link_layer, LinkLayer::Ethernet.code());
    assert_eq!(answer.legacy_resp.max_msg_sz, 1 << 30);
    assert_eq!((answer.legacy_resp.max_mtu, answer.legacy_resp.active_mtu), (5, 5));
}

#[test]
fn input_that_is_longer_than_known_must_be_zero_beyond() {
    // `uverbs_request`: EOPNOTSUPP; shorter than the command: ENOSPC.
    let client = client();
    let mut request = [0u8; 12];
    let try_with = |request: &[u8]| {
        let mut answer = [0; 176];
        let attributes = [
            Attribute::input_u64(method::invoke_write::WRITE_CMD, 1),
            input(method::invoke_write::CORE_IN, request),
            output(method::invoke_write::CORE_OUT, &mut answer),
        ];
        client.call(&mut command(method::device::INVOKE_WRITE, &attributes))
    };
    try_with(&request[..8]).unwrap();
    try_with(&request).unwrap();
    request[11] = 1;
    assert_eq!(try_with(&request), Err(Errno::EOPNOTSUPP));
    assert_eq!(try_with(&request[..4]), Err(Errno::ENOSPC));
    assert_eq!(try_with(&request[..3]), Err(Errno::EINVAL), "CORE_IN has 4 bytes at least");
}

#[test]
fn commands_that_no_kernel_has_are_refused() {
    // `uapi_get_method`.
    let client = client();
    let invoke = |number: u64| {
        let attributes = [
            Attribute::input_u64(method::invoke_write::WRITE_CMD, number),
            input(method::invoke_write::CORE_IN, &[0; 8]),
        ];
        client.call(&mut command(method::device::INVOKE_WRITE, &attributes))
    };
    assert_eq!(invoke(0x70), Err(Errno::EOPNOTSUPP));
    assert_eq!(invoke(0x8000_0070), Err(Errno::EOPNOTSUPP));
    assert_eq!(invoke(0x100), Err(Errno::EINVAL));
    assert_eq!(invoke(1 << 32), Err(Errno::EINVAL));
}

#[test]
fn nothing_but_the_context_can_be_made_without_a_context() {
    // `ib_uverbs_get_ucontext_file`.
    let client = Client::without_context(&Network::stepped(0));
    assert_eq!(client.try_domain(), Err(Errno::EINVAL));
    assert_eq!(client.try_uar(1), Err(Errno::EINVAL));
    assert_eq!(client.call(&mut query_port(&mut [0; 48])), Err(Errno::EINVAL));
    client.get_context(&dynamic_context()).unwrap();
    assert_eq!(client.get_context(&dynamic_context()), Err(Errno::EINVAL), "a second context");
    assert_eq!(client.domain(), 0, "handles start at 0");
}

#[test]
fn a_context_says_what_the_driver_needs_to_know() {
    let client = Client::without_context(&Network::stepped(0));
    let answer = client.get_context(&dynamic_context()).unwrap();
    assert_eq!(answer.cqe_version, 1);
    assert_eq!((answer.bf_reg_size, answer.log_uar_size), (512, 12));
    assert_eq!((answer.max_sq_desc_sz, answer.max_rq_desc_sz), (1024, 512));
    assert_eq!((answer.max_send_wqebb, answer.max_recv_wr), (1 << 15, 1 << 15));
    assert_eq!((answer.tot_bfregs, answer.num_ports), (0, 1));
    assert_eq!(answer.response_length, 72);
}

#[test]
fn the_driver_part_of_a_context_request_is_checked() {
    // `mlx5_ib_alloc_ucontext`, `calc_total_bfregs`.
    let network = Network::stepped(0);
    let refusal = |change: fn(&mut doorbell::mlx5::abi::driver::AllocUcontextReqV2)| {
        let client = Client::without_context(&network);
        let mut request = dynamic_context();
        change(&mut request);
        client.get_context(&request).err()
    };
    assert_eq!(refusal(|_| ()), None);
    assert_eq!(refusal(|r| r.comp_mask = 1), Some(Errno::EOPNOTSUPP));
    assert_eq!(refusal(|r| r.reserved0 = 1), Some(Errno::EOPNOTSUPP));
    assert_eq!(refusal(|r| r.reserved1 = 1), Some(Errno::EOPNOTSUPP));
    assert_eq!(refusal(|r| r.reserved2 = 1), Some(Errno::EOPNOTSUPP));
    assert_eq!(refusal(|r| r.flags = 2.into()), Some(Errno::EOPNOTSUPP));
    assert_eq!(refusal(|r| r.num_low_latency_bfregs = 2), Some(Errno::EINVAL));
    let fixed = |r: &mut doorbell::mlx5::abi::driver::AllocUcontextReqV2| {
        r.lib_caps = r.lib_caps.with_dyn_uar(false);
    };
    let client = Client::without_context(&network);
    let mut request = dynamic_context();
    fixed(&mut request);
    request.total_num_bfregs = 16;
    assert_eq!(client.get_context(&request).unwrap().tot_bfregs, 16);
    request.total_num_bfregs = 514;
    let client = Client::without_context(&network);
    assert_eq!(client.get_context(&request), Err(Errno::ENOMEM));
    // The last of these rounds up to 2^32, which is 0 again.
    for registers in [0, u32::MAX] {
        request.total_num_bfregs = registers;
        assert_eq!(client.get_context(&request), Err(Errno::EINVAL), "{registers} registers");
    }
}

#[test]
fn the_old_request_of_8_bytes_makes_a_context_with_completions_of_version_0() {
    let client = Client::without_context(&Network::stepped(0));
    let request = [16u32, 4];
    let mut answer = [0; 72];
    let attributes = [input(UHW_IN, request.as_bytes()), output(UHW_OUT, &mut answer)];
    client.call(&mut command(method::device::GET_CONTEXT, &attributes)).unwrap();
    let answer: doorbell::mlx5::abi::driver::AllocUcontextResp = record(&answer);
    assert_eq!((answer.cqe_version, answer.tot_bfregs), (0, 16));
    for length in [4, 12] {
        let client = Client::without_context(&Network::stepped(0));
        let attributes = [input(UHW_IN, &[0; 12][..length])];
        let mut bytes = command(method::device::GET_CONTEXT, &attributes);
        assert_eq!(client.call(&mut bytes), Err(Errno::EINVAL), "{length} bytes");
    }
}

#[test]
fn the_identifier_table_lists_what_is_there() {
    // `rdma_query_gid_table`, `copy_gid_entries_to_user`.
    use method::query_gid_table as id;
    let client = client();
    let query = |size: u64, room: &mut [u8]| {
        let mut count = [0; 8];
        let attributes = [
            Attribute::input_u64(id::ENTRY_SIZE, size),
            Attribute::input_u64(id::FLAGS, 0),
            output(id::RESP_ENTRIES, room),
            output(id::RESP_NUM_ENTRIES, &mut count),
        ];
        client.call(&mut command(method::device::QUERY_GID_TABLE, &attributes))?;
        Ok(u64::from_ne_bytes(count))
    };
    let mut room = [0; 32 * 8];
    assert_eq!(query(32, &mut room), Ok(4));
    let entries: [GidEntry; 8] = record(&room);
    assert_eq!(entries.map(|entry| entry.gid_index)[..4], [0, 1, 2, 3]);
    let kind = GidType::RoceV2.code();
    assert_eq!((entries[3].gid_type, entries[3].port_num), (kind, 1));
    assert_eq!(entries[3].gid[10..], [0xff, 0xff, 10, 9, 0, 1]);
    assert_eq!(query(48, &mut [0xff; 48 * 5]), Ok(4), "a caller that knows longer entries");
    assert_eq!(query(32, &mut [0; 32 * 3]), Err(Errno::EINVAL), "too little room");
    assert_eq!(query(32, &mut [0; 33]), Err(Errno::EINVAL), "not whole entries");
    assert_eq!(query(0, &mut [0; 32]), Err(Errno::EINVAL));
}

#[test]
fn one_identifier_is_found_by_its_index() {
    use method::query_gid_entry as id;
    let client = client();
    let query = |port: u64, index: u64| {
        let mut room = [0; 32];
        let attributes = [
            Attribute::input_u64(id::PORT, port),
            Attribute::input_u64(id::GID_INDEX, index),
            Attribute::input_u64(id::FLAGS, 0),
            output(id::RESP_ENTRY, &mut room),
        ];
        client.call(&mut command(method::device::QUERY_GID_ENTRY, &attributes))?;
        Ok(record::<GidEntry>(&room))
    };
    assert_eq!(query(1, 2).unwrap().gid_type, GidType::RoceV1.code());
    assert_eq!(query(1, 4), Err(Errno::ENODATA));
    assert_eq!(query(1, 32), Err(Errno::EINVAL));
    assert_eq!(query(2, 0), Err(Errno::EINVAL));
}

#[test]
fn handles_of_a_kind_are_listed() {
    // `UVERBS_METHOD_INFO_HANDLES`, which libibverbs does not use and rdma-core's tests do.
    let client = client();
    let domains = [client.domain(), client.domain()];
    let (mut list, mut total) = ([0; 16], [0; 4]);
    let attributes = [
        Attribute::input_u64(0, method::object::PD.into()),
        output(1, &mut total),
        output(2, &mut list),
    ];
    let method = Method { object: method::object::DEVICE, method: 1 };
    client.call(&mut command(method, &attributes)).unwrap();
    assert_eq!(u32::from_ne_bytes(total), 2);
    assert_eq!(list[..8], *domains.as_bytes());
}

#[test]
fn an_event_file_is_a_descriptor_of_this_process() {
    let client = client();
    let (channel, events) = client.event_files();
    assert!(channel > 2 && events > 2 && channel != events);
    assert_eq!(client.control.objects().event_files, 2);
    let files = client.take_event_files((channel, events));
    drop(files);
    assert_eq!(client.control.objects().event_files, 0);
    assert_eq!(size_of::<AsyncEvent>(), 16);
}

#[test]
fn the_device_says_what_it_holds() {
    let client = client();
    let request = doorbell::mlx5::abi::verbs::device::QueryDevice::new_zeroed();
    let answer: doorbell::mlx5::abi::verbs::device::QueryDeviceResp =
        client.invoke(WriteCommand::QueryDevice, &request, &[], &mut []).unwrap();
    assert_eq!((answer.vendor_id, answer.vendor_part_id), (0x2c9, 0x1017));
    assert_eq!((answer.max_cqe, answer.max_qp_wr), ((1 << 22) - 1, 1 << 15));
    assert_eq!((answer.max_sge, answer.max_qp_rd_atom), (30, 16));
    assert_eq!((answer.atomic_cap, answer.phys_port_cnt), (1, 1));
    // `IBV_DEVICE_CHANGE_PHY_PORT`, `PORT_ACTIVE_EVENT`, `SYS_IMAGE_GUID`, `RC_RNR_NAK_GEN`, as
    // `ibv_devinfo` names them.
    assert_eq!(answer.device_cap_flags, 0x20 | 0x400 | 0x800 | 0x1000);
    let request = doorbell::mlx5::abi::verbs::device::ExQueryDevice::new_zeroed();
    let more: doorbell::mlx5::abi::verbs::device::ExQueryDeviceResp =
        client.invoke(WriteCommand::ExQueryDevice, &request, &[], &mut []).unwrap();
    assert_eq!((more.base, more.response_length), (answer, 304));
    let bad = doorbell::mlx5::abi::verbs::device::ExQueryDevice { comp_mask: 1, reserved: 0 };
    let refused: Result<doorbell::mlx5::abi::verbs::device::ExQueryDeviceResp, _> =
        client.invoke(WriteCommand::ExQueryDevice, &bad, &[], &mut []);
    assert_eq!(refused.err(), Some(Errno::EINVAL));
}

#[test]
fn the_size_of_an_older_command_is_looked_at_first() {
    // libibverbs makes such a call, of no bytes, to find out whether the ioctl knows the commands.
    let client = Client::without_context(&Network::stepped(0));
    for command_code in [WriteCommand::QueryDevice, WriteCommand::ExQueryDevice] {
        let code = u64::from(command_code.code());
        let attributes = [input(method::invoke_write::WRITE_CMD, code.as_bytes())];
        let refused = client.call(&mut command(method::device::INVOKE_WRITE, &attributes));
        assert_eq!(refused, Err(Errno::ENOSPC), "{command_code:?}");
    }
}

#[test]
fn calls_are_written_down_by_name_and_the_chosen_one_is_refused() {
    let client = client();
    client.control.forget_calls();
    client.control.refuse_call(2, Errno::ENOMEM);
    client.domain();
    assert_eq!(client.try_domain(), Err(Errno::ENOMEM));
    assert!(!client.control.withdraw_refusal());
    client.uar();
    assert_eq!(client.control.calls(), ["ALLOC_PD", "ALLOC_PD", "UAR_OBJ_ALLOC"]);
    let objects = client.control.objects();
    assert_eq!((objects.protection_domains, objects.register_pages), (1, 1));
    client.control.refuse_call(3, Errno::EIO);
    assert!(client.control.withdraw_refusal());
    client.domain();
}

#[test]
fn a_domain_needs_room_for_its_number() {
    // `mlx5_ib_alloc_pd` copies the number without asking for the room.
    let client = client();
    let request = write::AllocPd::new_zeroed();
    let refused: Result<write::AllocPdResp, _> =
        client.invoke(WriteCommand::AllocPd, &request, &[], &mut []);
    assert_eq!(refused.err(), Some(Errno::EFAULT));
    assert_eq!(client.control.objects().total(), 0);
}
