//! The methods of the verbs ioctl, and the attributes that each takes.
//!
//! From the `DECLARE_UVERBS_NAMED_METHOD`s of `drivers/infiniband/core/uverbs_std_types*.c` and of
//! `drivers/infiniband/hw/mlx5/main.c` and `std_types.c`.

use super::attributes::{Access, Attribute, Call, UHW};
use super::file::{Outcome, State};
use super::{completion_queue, dmabuf, invoke, query, queue_pair, region, uar};
use doorbell::mlx5::abi::driver::{self, AllocUcontextResp};
use doorbell::mlx5::abi::verbs::method::{self, Method, object};
use doorbell::mlx5::abi::verbs::port::{GidEntry, QueryPortRespEx};
use doorbell::mlx5::abi::verbs::qp::{DestroyQpResp, QpCap};
use doorbell::mlx5::abi::verbs::write::DestroyCqResp;
use doorbell_hal::Errno;

/// A method that this kernel knows.
pub(super) struct Known {
    pub(super) method: Method,
    pub(super) name: &'static str,
    pub(super) attributes: &'static [Attribute],
    /// It takes the driver's data, too.
    pub(super) driver_data: bool,
    /// The attribute whose object it destroys, before it answers.
    pub(super) destroys: Option<u16>,
    pub(super) run: Run,
}

/// Does a method. The call's attributes are checked, and keep K2.
pub(super) type Run = unsafe fn(&mut State<'_>, &mut Call<'_>) -> Result<Outcome, Errno>;

impl Known {
    /// The lists of attributes.
    pub(super) fn knows(&self) -> [&'static [Attribute]; 2] {
        [self.attributes, if self.driver_data { &UHW } else { &[] }]
    }
}

/// Finds a method by its numbers.
pub(super) fn find(method: Method) -> Option<&'static Known> {
    METHODS.iter().find(|known| known.method == method)
}

/// Kinds of objects that this device never has.
const SHARED_RECEIVE_QUEUE: u16 = 5;
const EXTENDED_DOMAIN: u16 = 10;
const INDIRECTION_TABLE: u16 = 11;

const fn device(method: u16) -> Method {
    Method { object: object::DEVICE, method }
}

/// `UVERBS_METHOD_INFO_HANDLES` and its attributes.
const INFO_HANDLES: Method = device(1);
pub(super) const INFO_OBJECT_ID: u16 = 0;
pub(super) const INFO_TOTAL_HANDLES: u16 = 1;
pub(super) const INFO_HANDLES_LIST: u16 = 2;

/// `UVERBS_METHOD_QUERY_CONTEXT` and its attributes.
const QUERY_CONTEXT: Method = device(4);
pub(super) const QUERY_CONTEXT_COMP_VECTORS: u16 = 0;
pub(super) const QUERY_CONTEXT_CORE_SUPPORT: u16 = 1;
pub(super) const QUERY_CONTEXT_UCTX: u16 = 0x1000;

/// `MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX`.
pub(super) const CREATE_CQ_UAR_INDEX: u16 = 0x1002;

/// `MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS`.
pub(super) const DMABUF_DATA_DIRECT: u16 = 0x1000;

use Attribute as A;

/// Every method.
static METHODS: &[Known] = &[
    Known {
        method: method::device::INVOKE_WRITE,
        name: "INVOKE_WRITE",
        attributes: &[
            A::constant(method::invoke_write::WRITE_CMD),
            A::input_at_least(method::invoke_write::CORE_IN, 4).optional(),
            A::output_at_least(method::invoke_write::CORE_OUT, 0).optional(),
        ],
        driver_data: true,
        destroys: None,
        run: invoke::invoke,
    },
    Known {
        method: INFO_HANDLES,
        name: "INFO_HANDLES",
        attributes: &[
            A::constant(INFO_OBJECT_ID),
            A::output::<u32>(INFO_TOTAL_HANDLES).optional(),
            A::output_at_least(INFO_HANDLES_LIST, 4).optional(),
        ],
        driver_data: false,
        destroys: None,
        run: query::handles,
    },
    Known {
        method: method::device::QUERY_PORT,
        name: "QUERY_PORT",
        attributes: &[
            A::constant(method::query_port::PORT_NUM),
            A::output_struct::<QueryPortRespEx>(method::query_port::RESP),
        ],
        driver_data: false,
        destroys: None,
        run: query::port,
    },
    Known {
        method: method::device::GET_CONTEXT,
        name: "GET_CONTEXT",
        attributes: &[
            A::output::<u32>(method::get_context::NUM_COMP_VECTORS).optional(),
            A::output::<u64>(method::get_context::CORE_SUPPORT).optional(),
        ],
        driver_data: true,
        destroys: None,
        run: query::get_context,
    },
    Known {
        method: QUERY_CONTEXT,
        name: "QUERY_CONTEXT",
        attributes: &[
            A::output::<u32>(QUERY_CONTEXT_COMP_VECTORS).optional(),
            A::output::<u64>(QUERY_CONTEXT_CORE_SUPPORT).optional(),
            A::output_struct::<AllocUcontextResp>(QUERY_CONTEXT_UCTX),
        ],
        driver_data: false,
        destroys: None,
        run: query::query_context,
    },
    Known {
        method: method::device::QUERY_GID_TABLE,
        name: "QUERY_GID_TABLE",
        attributes: &[
            A::constant(method::query_gid_table::ENTRY_SIZE),
            A::flags(method::query_gid_table::FLAGS).optional(),
            A::output_at_least(method::query_gid_table::RESP_ENTRIES, 0),
            A::output::<u64>(method::query_gid_table::RESP_NUM_ENTRIES),
        ],
        driver_data: false,
        destroys: None,
        run: query::gid_table,
    },
    Known {
        method: method::device::QUERY_GID_ENTRY,
        name: "QUERY_GID_ENTRY",
        attributes: &[
            A::constant(method::query_gid_entry::PORT),
            A::constant(method::query_gid_entry::GID_INDEX),
            A::flags(method::query_gid_entry::FLAGS),
            A::output_struct::<GidEntry>(method::query_gid_entry::RESP_ENTRY),
        ],
        driver_data: false,
        destroys: None,
        run: query::gid_entry,
    },
    destroy(method::pd::DESTROY, "PD_DESTROY", &[A::handle(0, object::PD, Access::Destroy)]),
    Known {
        method: method::cq::CREATE,
        name: "CQ_CREATE",
        attributes: &[
            A::handle(method::create_cq::HANDLE, object::CQ, Access::New),
            A::input::<u32>(method::create_cq::CQE),
            A::input::<u64>(method::create_cq::USER_HANDLE),
            A::file(method::create_cq::COMP_CHANNEL, object::COMP_CHANNEL, Access::Read).optional(),
            A::input::<u32>(method::create_cq::COMP_VECTOR),
            A::flags(method::create_cq::FLAGS).optional(),
            A::output::<u32>(method::create_cq::RESP_CQE),
            A::file(method::create_cq::EVENT_FD, object::ASYNC_EVENT, Access::Read).optional(),
            A::input::<u32>(CREATE_CQ_UAR_INDEX).optional(),
        ],
        driver_data: true,
        destroys: None,
        run: completion_queue::create,
    },
    Known {
        attributes: &[
            A::handle(method::destroy_cq::HANDLE, object::CQ, Access::Destroy),
            A::output::<DestroyCqResp>(method::destroy_cq::RESP),
        ],
        run: completion_queue::destroyed,
        ..destroy(method::cq::DESTROY, "CQ_DESTROY", &[])
    },
    Known {
        method: method::qp::CREATE,
        name: "QP_CREATE",
        attributes: &[
            A::handle(method::create_qp::HANDLE, object::QP, Access::New),
            A::handle(method::create_qp::XRCD_HANDLE, EXTENDED_DOMAIN, Access::Read).optional(),
            A::handle(method::create_qp::PD_HANDLE, object::PD, Access::Read).optional(),
            A::handle(method::create_qp::SRQ_HANDLE, SHARED_RECEIVE_QUEUE, Access::Read).optional(),
            A::handle(method::create_qp::SEND_CQ_HANDLE, object::CQ, Access::Read).optional(),
            A::handle(method::create_qp::RECV_CQ_HANDLE, object::CQ, Access::Read).optional(),
            A::handle(method::create_qp::IND_TABLE_HANDLE, INDIRECTION_TABLE, Access::Read)
                .optional(),
            A::input::<u64>(method::create_qp::USER_HANDLE),
            A::input_struct::<QpCap>(method::create_qp::CAP),
            A::constant(method::create_qp::TYPE),
            A::flags(method::create_qp::FLAGS).optional(),
            A::input::<u32>(method::create_qp::SOURCE_QPN).optional(),
            A::file(method::create_qp::EVENT_FD, object::ASYNC_EVENT, Access::Read).optional(),
            A::output_struct::<QpCap>(method::create_qp::RESP_CAP),
            A::output::<u32>(method::create_qp::RESP_QP_NUM),
        ],
        driver_data: true,
        destroys: None,
        run: queue_pair::create,
    },
    Known {
        attributes: &[
            A::handle(method::destroy_qp::HANDLE, object::QP, Access::Destroy),
            A::output::<DestroyQpResp>(method::destroy_qp::RESP),
        ],
        run: queue_pair::destroyed,
        ..destroy(method::qp::DESTROY, "QP_DESTROY", &[])
    },
    destroy(method::mr::DESTROY, "MR_DESTROY", &[A::handle(0, object::MR, Access::Destroy)]),
    Known {
        method: method::mr::QUERY,
        name: "MR_QUERY",
        attributes: &[
            A::handle(method::query_mr::HANDLE, object::MR, Access::Read),
            A::output::<u32>(method::query_mr::RESP_LKEY),
            A::output::<u32>(method::query_mr::RESP_RKEY),
            A::output::<u64>(method::query_mr::RESP_LENGTH),
            A::output::<u64>(method::query_mr::RESP_IOVA).optional(),
        ],
        driver_data: false,
        destroys: None,
        run: region::query,
    },
    Known {
        method: method::mr::REG_DMABUF,
        name: "REG_DMABUF_MR",
        attributes: &[
            A::handle(method::reg_dmabuf_mr::HANDLE, object::MR, Access::New),
            A::handle(method::reg_dmabuf_mr::PD_HANDLE, object::PD, Access::Read),
            A::input::<u64>(method::reg_dmabuf_mr::OFFSET),
            A::input::<u64>(method::reg_dmabuf_mr::LENGTH),
            A::input::<u64>(method::reg_dmabuf_mr::IOVA),
            A::input::<u32>(method::reg_dmabuf_mr::FD),
            A::flags(method::reg_dmabuf_mr::ACCESS_FLAGS).optional(),
            A::output::<u32>(method::reg_dmabuf_mr::RESP_LKEY),
            A::output::<u32>(method::reg_dmabuf_mr::RESP_RKEY),
            A::flags(DMABUF_DATA_DIRECT).optional(),
        ],
        driver_data: false,
        destroys: None,
        run: dmabuf::register,
    },
    Known {
        method: method::async_event::ALLOC,
        name: "ASYNC_EVENT_ALLOC",
        attributes: &[A::file(
            method::async_event_alloc::FD_HANDLE,
            object::ASYNC_EVENT,
            Access::New,
        )],
        driver_data: false,
        destroys: None,
        run: query::asynchronous_file,
    },
    Known {
        method: driver::uar::ALLOC,
        name: "UAR_OBJ_ALLOC",
        attributes: &[
            A::handle(driver::uar_alloc::HANDLE, driver::object::UAR, Access::New),
            A::constant(driver::uar_alloc::TYPE),
            A::output::<u64>(driver::uar_alloc::MMAP_OFFSET),
            A::output::<u32>(driver::uar_alloc::MMAP_LENGTH),
            A::output::<u32>(driver::uar_alloc::PAGE_ID),
        ],
        driver_data: false,
        destroys: None,
        run: uar::allocate,
    },
    Known {
        destroys: Some(driver::uar_destroy::HANDLE),
        ..destroy(
            driver::uar::DESTROY,
            "UAR_OBJ_DESTROY",
            &[A::handle(driver::uar_destroy::HANDLE, driver::object::UAR, Access::Destroy)],
        )
    },
];

/// A method that destroys the object of its attribute 0 and answers nothing.
const fn destroy(method: Method, name: &'static str, attributes: &'static [Attribute]) -> Known {
    Known { method, name, attributes, driver_data: false, destroys: Some(0), run: nothing }
}

/// `uverbs_destroy_def_handler`: the object is gone already.
unsafe fn nothing(_: &mut State<'_>, _: &mut Call<'_>) -> Result<Outcome, Errno> {
    Ok(Outcome::Done)
}
