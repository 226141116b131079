//! A kernel's answers that it may not give are errors that name the call, what is wrong, and the
//! value; and odd ones that it may give are taken. On virtual NICs whose answers are changed on the
//! way.

mod device;

use doorbell::error::Error;
use doorbell::mlx5::abi::driver::{self, AllocUcontextResp};
use doorbell::mlx5::abi::verbs::ioctl::{Attribute, Header};
use doorbell::mlx5::abi::verbs::method::{self, Method, UHW_OUT};
use doorbell::mlx5::abi::verbs::port::{QueryPortResp, QueryPortRespEx};
use doorbell::mlx5::{Connection, Nic, PeerRights};
use doorbell_hal::Errno;
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::Objects;
use std::mem::offset_of;
use zerocopy::FromBytes;

/// Bytes of an answer to be changed.
#[derive(Clone, Copy)]
struct Lie {
    method: Method,
    /// The attribute of the answer, and where in it.
    attribute: u16,
    at: usize,
    bytes: [u8; 4],
    len: usize,
}

impl Lie {
    fn u32(method: Method, attribute: u16, at: usize, value: u32) -> Lie {
        Lie { method, attribute, at, bytes: value.to_ne_bytes(), len: 4 }
    }

    fn u16(method: Method, attribute: u16, at: usize, value: u16) -> Lie {
        let [a, b] = value.to_ne_bytes();
        Lie { method, attribute, at, bytes: [a, b, 0, 0], len: 2 }
    }

    fn u8(method: Method, attribute: u16, at: usize, value: u8) -> Lie {
        Lie { method, attribute, at, bytes: [value, 0, 0, 0], len: 1 }
    }
}

/// A verbs file whose kernel lies.
struct Liar {
    file: VirtualConnectx,
    lie: Lie,
}

// SAFETY: K1: as the file that it passes all calls on to; the lie changes bytes of an answer only.
unsafe impl Uverbs for Liar {
    type Memory = <VirtualConnectx as Uverbs>::Memory;
    type Page = <VirtualConnectx as Uverbs>::Page;
    type EventFiles = <VirtualConnectx as Uverbs>::EventFiles;

    fn device_name(&self) -> &str {
        self.file.device_name()
    }

    unsafe fn ioctl(&self, command: &mut [u64]) -> Result<(), Errno> {
        // SAFETY: K2, passed on to our caller.
        unsafe { self.file.ioctl(command) }?;
        let bytes = zerocopy::IntoBytes::as_bytes(&*command);
        let (header, rest) = Header::read_from_prefix(bytes).unwrap();
        if header.method() == self.lie.method {
            for chunk in rest.chunks_exact(size_of::<Attribute>()) {
                let attribute = Attribute::read_from_bytes(chunk).unwrap();
                if attribute.attr_id == self.lie.attribute {
                    let Lie { at, bytes, len, .. } = self.lie;
                    assert!(at + len <= attribute.len.into());
                    let to = std::ptr::with_exposed_provenance_mut::<u8>(attribute.data as usize);
                    // SAFETY: K2: the attribute has room for `len` bytes at `at`, as asserted.
                    unsafe { to.add(at).copy_from(bytes.as_ptr(), len) };
                }
            }
        }
        Ok(())
    }

    fn map(&self, offset: u64, len: usize) -> Result<Self::Page, Errno> {
        self.file.map(offset, len)
    }

    fn allocate(&self, len: usize) -> Result<Self::Memory, Errno> {
        self.file.allocate(len)
    }

    unsafe fn event_files(&self, one: i32, other: i32) -> Result<Self::EventFiles, Errno> {
        // SAFETY: K3, passed on to our caller.
        unsafe { self.file.event_files(one, other) }
    }

    fn page_size(&self) -> usize {
        self.file.page_size()
    }

    fn random(&self) -> Result<u32, Errno> {
        self.file.random()
    }
}

fn open(lie: Lie) -> Result<Nic<Liar>, Error> {
    let file = VirtualConnectx::builder().network(&Network::stepped(1)).open();
    let control = file.control();
    let opened = Nic::open(Liar { file, lie });
    if opened.is_err() {
        assert_eq!(control.objects(), Objects::default(), "left behind");
    }
    opened
}

/// The error of opening a NIC whose kernel lies, which is an answer that it may not give.
#[track_caller]
fn refused(lie: Lie, call: &str, value: u64) {
    match open(lie) {
        Err(error @ Error::Answer { .. }) => {
            let text = error.to_string();
            assert!(text.contains(&format!("the answer to {call}")), "{text}");
            assert!(text.contains(&format!("{value:#x}")), "{text}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{call} may not answer {value:#x}"),
    }
}

/// A lie in what the driver answers when the context is made.
macro_rules! context {
    ($kind:ident $field:ident = $value:expr) => {
        Lie::$kind(
            method::device::GET_CONTEXT,
            UHW_OUT,
            offset_of!(AllocUcontextResp, $field),
            $value,
        )
    };
}

/// A lie about the port.
macro_rules! port {
    ($kind:ident $field:ident = $value:expr) => {
        Lie::$kind(
            method::device::QUERY_PORT,
            method::query_port::RESP,
            offset_of!(QueryPortRespEx, legacy_resp) + offset_of!(QueryPortResp, $field),
            $value,
        )
    };
}

#[test]
fn fewer_registers_than_a_page_holds_are_refused() {
    let lie = Lie::u32(driver::uar::ALLOC, driver::uar_alloc::MMAP_LENGTH, 0, 2048);
    let error = open(lie).err().unwrap();
    assert!(matches!(error, Error::TooFewRegisters { bytes: 2048, page: 4096, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("2048 bytes of doorbell registers") && text.contains("4096"), "{text}");
}

#[test]
fn a_completion_format_that_was_not_asked_for_is_refused() {
    for version in [0, 2, 255] {
        refused(context!(u8 cqe_version = version), "GET_CONTEXT", version.into());
    }
}

#[test]
fn a_register_size_that_is_not_this_familys_is_refused() {
    for size in [1, 256, 1024, u32::MAX] {
        refused(context!(u32 bf_reg_size = size), "GET_CONTEXT", size.into());
    }
    // 0 says that writes are not combined, which is no lie.
    open(context!(u32 bf_reg_size = 0)).unwrap();
}

#[test]
fn send_entries_too_small_for_anything_are_refused() {
    for size in [0, 64, 255] {
        refused(context!(u16 max_sq_desc_sz = size), "GET_CONTEXT", size.into());
    }
    let nic = open(context!(u16 max_sq_desc_sz = 256)).unwrap();
    let cq = nic.completion_queue(16).unwrap();
    nic.queue_pair(&cq).sends(8).create().unwrap();
}

#[test]
fn bounds_of_any_size_are_bounds() {
    let nic = open(context!(u32 max_send_wqebb = u32::MAX)).unwrap();
    assert_eq!(nic.max_sends(), 32768, "an index of 16 bits tells no more slots apart");
    let nic = open(context!(u32 max_recv_wr = u32::MAX)).unwrap();
    assert_eq!(nic.max_receives(), 32768);
    let nic = open(context!(u32 max_send_wqebb = 0)).unwrap();
    let cq = nic.completion_queue(16).unwrap();
    let error = nic.queue_pair(&cq).sends(1).create().err().unwrap();
    assert_eq!(error.to_string(), "the number of send slots is 1, and must be from 0 to 0");
    nic.queue_pair(&cq).sends(0).receives(4).create().unwrap();
    let nic = open(context!(u16 max_rq_desc_sz = 0)).unwrap();
    let cq = nic.completion_queue(16).unwrap();
    assert!(nic.queue_pair(&cq).sends(4).receives(4).create().is_err(), "no receive fits");
}

#[test]
fn a_port_in_a_state_of_no_name_is_not_active() {
    for (state, name) in [(0, "in no state"), (2, "Initialize"), (3, "Armed"), (77, "in no state")]
    {
        let error = open(port!(u8 state = state)).err().unwrap();
        assert!(matches!(error, Error::PortNotActive { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_port_of_an_unknown_kind_is_refused() {
    refused(port!(u8 link_layer = 9), "QUERY_PORT", 9);
    refused(port!(u8 active_mtu = 0), "QUERY_PORT", 0);
    refused(port!(u8 active_mtu = 6), "QUERY_PORT", 6);
}

#[test]
fn a_table_of_identifiers_of_any_length_is_read() {
    for len in [0, 1, 3, 1 << 20, u32::MAX] {
        match open(port!(u32 gid_tbl_len = len)) {
            Ok(nic) => assert_ne!(nic.gid(), [0; 16]),
            Err(Error::Refused { call: "QUERY_GID_TABLE", .. }) => assert!(len < 4),
            Err(other) => panic!("{len}: {other}"),
        }
    }
    // More identifiers than there was room for.
    let count = method::query_gid_table::RESP_NUM_ENTRIES;
    open(Lie::u32(method::device::QUERY_GID_TABLE, count, 0, u32::MAX)).unwrap();
    let none = open(Lie::u32(method::device::QUERY_GID_TABLE, count, 0, 0)).err().unwrap();
    assert!(matches!(none, Error::NoRoceV2Identifier { .. }), "{none}");
}

#[test]
fn a_message_longer_than_any_is_cut_to_the_longest() {
    assert_eq!(open(port!(u32 max_msg_sz = u32::MAX)).unwrap().max_message(), 1 << 31);
    let nic = open(port!(u32 max_msg_sz = 5)).unwrap();
    assert_eq!(nic.max_message(), 5);
}

#[test]
fn a_queue_pairs_number_has_24_bits_whatever_the_kernel_says() {
    let lie = Lie::u32(method::qp::CREATE, method::create_qp::RESP_QP_NUM, 0, u32::MAX);
    let nic = open(lie).unwrap();
    let cq = nic.completion_queue(16).unwrap();
    let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
    assert_eq!(qp.number(), (1 << 24) - 1);
    let peer = qp.endpoint();
    let _ = qp.connect(PeerRights::NONE, &peer, &Connection::default());
}
