//! The methods of the verbs ioctl, and the attributes of each.
//!
//! A method belongs to a kind of object; [`Method`] is the pair. The attributes of a method are the
//! constants of a module of its name.
//!
//! From Linux's `rdma/ib_user_ioctl_cmds.h` (6.12).

/// A method of a kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    /// The kind of object ([`object`]).
    pub object: u16,
    /// The method's number, among those of the kind.
    pub method: u16,
}

/// Numbers from here on are the driver's own (`1 << UVERBS_ID_NS_SHIFT`).
pub const DRIVER_NAMESPACE: u16 = 1 << 12;

/// The driver's part of a command's input (`UVERBS_ATTR_UHW_IN`): an attribute of every method
/// that makes an object, and of [`device::INVOKE_WRITE`].
pub const UHW_IN: u16 = DRIVER_NAMESPACE;

/// Room for the driver's part of a command's output (`UVERBS_ATTR_UHW_OUT`).
pub const UHW_OUT: u16 = DRIVER_NAMESPACE + 1;

/// The kinds of objects (`enum uverbs_default_objects`).
pub mod object {
    numbers! { u16;
        /// The device itself. There are no instances of it.
        DEVICE = 0, "UVERBS_OBJECT_DEVICE";
        /// A protection domain.
        PD = 1, "UVERBS_OBJECT_PD";
        /// A completion channel: a file.
        COMP_CHANNEL = 2, "UVERBS_OBJECT_COMP_CHANNEL";
        /// A completion queue.
        CQ = 3, "UVERBS_OBJECT_CQ";
        /// A queue pair.
        QP = 4, "UVERBS_OBJECT_QP";
        /// A memory region.
        MR = 7, "UVERBS_OBJECT_MR";
        /// A file of asynchronous events.
        ASYNC_EVENT = 16, "UVERBS_OBJECT_ASYNC_EVENT";
    }
}

/// The device itself.
pub mod device {
    use super::{Method, object};

    numbers! { Method;
        /// Does one of the older commands ([`write`](mod@super::super::write)).
        INVOKE_WRITE = Method { object: object::DEVICE, method: 0 }, "UVERBS_METHOD_INVOKE_WRITE";
        /// Asks about a port.
        QUERY_PORT = Method { object: object::DEVICE, method: 2 }, "UVERBS_METHOD_QUERY_PORT";
        /// Makes the context of this file: once, and before all else.
        GET_CONTEXT = Method { object: object::DEVICE, method: 3 }, "UVERBS_METHOD_GET_CONTEXT";
        /// Lists the global identifiers of every port.
        QUERY_GID_TABLE = Method { object: object::DEVICE, method: 5 }, "UVERBS_METHOD_QUERY_GID_TABLE";
        /// Asks about one global identifier.
        QUERY_GID_ENTRY = Method { object: object::DEVICE, method: 6 }, "UVERBS_METHOD_QUERY_GID_ENTRY";
    }
}

/// Protection domains.
pub mod pd {
    use super::{Method, object};

    numbers! { Method;
        /// Destroys one.
        DESTROY = Method { object: object::PD, method: 0 }, "UVERBS_METHOD_PD_DESTROY";
    }
}

/// Completion queues.
pub mod cq {
    use super::{Method, object};

    numbers! { Method;
        /// Makes one.
        CREATE = Method { object: object::CQ, method: 0 }, "UVERBS_METHOD_CQ_CREATE";
        /// Destroys one.
        DESTROY = Method { object: object::CQ, method: 1 }, "UVERBS_METHOD_CQ_DESTROY";
    }
}

/// Queue pairs.
pub mod qp {
    use super::{Method, object};

    numbers! { Method;
        /// Makes one.
        CREATE = Method { object: object::QP, method: 0 }, "UVERBS_METHOD_QP_CREATE";
        /// Destroys one.
        DESTROY = Method { object: object::QP, method: 1 }, "UVERBS_METHOD_QP_DESTROY";
    }
}

/// Memory regions.
pub mod mr {
    use super::{Method, object};

    numbers! { Method;
        /// Deregisters one.
        DESTROY = Method { object: object::MR, method: 1 }, "UVERBS_METHOD_MR_DESTROY";
        /// Asks for one's keys.
        QUERY = Method { object: object::MR, method: 3 }, "UVERBS_METHOD_QUERY_MR";
        /// Registers a dma-buf.
        REG_DMABUF = Method { object: object::MR, method: 4 }, "UVERBS_METHOD_REG_DMABUF_MR";
    }
}

/// Files of asynchronous events.
pub mod async_event {
    use super::{Method, object};

    numbers! { Method;
        /// Makes one.
        ALLOC = Method { object: object::ASYNC_EVENT, method: 0 }, "UVERBS_METHOD_ASYNC_EVENT_ALLOC";
    }
}

/// The attributes of [`device::INVOKE_WRITE`].
pub mod invoke_write {
    numbers! { u16;
        /// The command's request: input, at least 4 bytes.
        CORE_IN = 0, "UVERBS_ATTR_CORE_IN";
        /// Room for the command's answer: output.
        CORE_OUT = 1, "UVERBS_ATTR_CORE_OUT";
        /// Which command: a [`WriteCommand`](super::super::write::WriteCommand), as a constant.
        WRITE_CMD = 2, "UVERBS_ATTR_WRITE_CMD";
    }
}

/// The attributes of [`device::QUERY_PORT`].
pub mod query_port {
    numbers! { u16;
        /// Which port, from 1 on: a constant.
        PORT_NUM = 0, "UVERBS_ATTR_QUERY_PORT_PORT_NUM";
        /// Room for a [`QueryPortRespEx`](super::super::port::QueryPortRespEx): output.
        RESP = 1, "UVERBS_ATTR_QUERY_PORT_RESP";
    }
}

/// The attributes of [`device::GET_CONTEXT`].
pub mod get_context {
    numbers! { u16;
        /// The number of completion vectors: 4 bytes of output.
        NUM_COMP_VECTORS = 0, "UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS";
        /// [`CoreSupport`](super::super::CoreSupport): 8 bytes of output.
        CORE_SUPPORT = 1, "UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT";
    }
}

/// The attributes of [`device::QUERY_GID_TABLE`].
pub mod query_gid_table {
    numbers! { u16;
        /// Bytes of an entry that the caller knows: a constant.
        ENTRY_SIZE = 0, "UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE";
        /// 0: flags.
        FLAGS = 1, "UVERBS_ATTR_QUERY_GID_TABLE_FLAGS";
        /// Room for [`GidEntry`](super::super::port::GidEntry)s: output.
        RESP_ENTRIES = 2, "UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES";
        /// How many there are: 8 bytes of output.
        RESP_NUM_ENTRIES = 3, "UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES";
    }
}

/// The attributes of [`device::QUERY_GID_ENTRY`].
pub mod query_gid_entry {
    numbers! { u16;
        /// Which port, from 1 on: a constant.
        PORT = 0, "UVERBS_ATTR_QUERY_GID_ENTRY_PORT";
        /// Which entry: a constant.
        GID_INDEX = 1, "UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX";
        /// 0: flags.
        FLAGS = 2, "UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS";
        /// Room for a [`GidEntry`](super::super::port::GidEntry): output.
        RESP_ENTRY = 3, "UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY";
    }
}

/// The attributes of [`pd::DESTROY`].
pub mod destroy_pd {
    numbers! { u16;
        /// The protection domain: a handle.
        HANDLE = 0, "UVERBS_ATTR_DESTROY_PD_HANDLE";
    }
}

/// The attributes of [`cq::CREATE`].
pub mod create_cq {
    numbers! { u16;
        /// The completion queue: a new handle.
        HANDLE = 0, "UVERBS_ATTR_CREATE_CQ_HANDLE";
        /// The least number of entries: 4 bytes of input.
        CQE = 1, "UVERBS_ATTR_CREATE_CQ_CQE";
        /// What its events carry: 8 bytes of input.
        USER_HANDLE = 2, "UVERBS_ATTR_CREATE_CQ_USER_HANDLE";
        /// The completion channel, if any: a descriptor.
        COMP_CHANNEL = 3, "UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL";
        /// The completion vector: 4 bytes of input.
        COMP_VECTOR = 4, "UVERBS_ATTR_CREATE_CQ_COMP_VECTOR";
        /// Flags (`enum ib_uverbs_ex_create_cq_flags`).
        FLAGS = 5, "UVERBS_ATTR_CREATE_CQ_FLAGS";
        /// The number of entries it has: 4 bytes of output.
        RESP_CQE = 6, "UVERBS_ATTR_CREATE_CQ_RESP_CQE";
        /// The file for its asynchronous events, if any: a descriptor.
        EVENT_FD = 7, "UVERBS_ATTR_CREATE_CQ_EVENT_FD";
    }
}

/// The attributes of [`cq::DESTROY`].
pub mod destroy_cq {
    numbers! { u16;
        /// The completion queue: a handle.
        HANDLE = 0, "UVERBS_ATTR_DESTROY_CQ_HANDLE";
        /// Room for a [`DestroyCqResp`](super::super::write::DestroyCqResp): output.
        RESP = 1, "UVERBS_ATTR_DESTROY_CQ_RESP";
    }
}

/// The attributes of [`qp::CREATE`].
pub mod create_qp {
    numbers! { u16;
        /// The queue pair: a new handle.
        HANDLE = 0, "UVERBS_ATTR_CREATE_QP_HANDLE";
        /// The extended domain, for targets of extended connections: a handle.
        XRCD_HANDLE = 1, "UVERBS_ATTR_CREATE_QP_XRCD_HANDLE";
        /// The protection domain: a handle.
        PD_HANDLE = 2, "UVERBS_ATTR_CREATE_QP_PD_HANDLE";
        /// The shared receive queue, if any: a handle.
        SRQ_HANDLE = 3, "UVERBS_ATTR_CREATE_QP_SRQ_HANDLE";
        /// The send queue's completion queue: a handle.
        SEND_CQ_HANDLE = 4, "UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE";
        /// The receive queue's completion queue: a handle.
        RECV_CQ_HANDLE = 5, "UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE";
        /// The table of receive queues, for raw packets: a handle.
        IND_TABLE_HANDLE = 6, "UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE";
        /// What its events carry: 8 bytes of input.
        USER_HANDLE = 7, "UVERBS_ATTR_CREATE_QP_USER_HANDLE";
        /// What it must hold: a [`QpCap`](super::super::qp::QpCap), input.
        CAP = 8, "UVERBS_ATTR_CREATE_QP_CAP";
        /// A [`QpType`](super::super::qp::QpType): a constant.
        TYPE = 9, "UVERBS_ATTR_CREATE_QP_TYPE";
        /// Flags (`enum ib_uverbs_qp_create_flags`).
        FLAGS = 10, "UVERBS_ATTR_CREATE_QP_FLAGS";
        /// The number it sends as, for raw packets: 4 bytes of input.
        SOURCE_QPN = 11, "UVERBS_ATTR_CREATE_QP_SOURCE_QPN";
        /// The file for its asynchronous events, if any: a descriptor.
        EVENT_FD = 12, "UVERBS_ATTR_CREATE_QP_EVENT_FD";
        /// What it holds: room for a [`QpCap`](super::super::qp::QpCap), output.
        RESP_CAP = 13, "UVERBS_ATTR_CREATE_QP_RESP_CAP";
        /// Its number: 4 bytes of output.
        RESP_QP_NUM = 14, "UVERBS_ATTR_CREATE_QP_RESP_QP_NUM";
    }
}

/// The attributes of [`qp::DESTROY`].
pub mod destroy_qp {
    numbers! { u16;
        /// The queue pair: a handle.
        HANDLE = 0, "UVERBS_ATTR_DESTROY_QP_HANDLE";
        /// Room for a [`DestroyQpResp`](super::super::qp::DestroyQpResp): output.
        RESP = 1, "UVERBS_ATTR_DESTROY_QP_RESP";
    }
}

/// The attributes of [`mr::DESTROY`].
pub mod destroy_mr {
    numbers! { u16;
        /// The region: a handle.
        HANDLE = 0, "UVERBS_ATTR_DESTROY_MR_HANDLE";
    }
}

/// The attributes of [`mr::QUERY`].
pub mod query_mr {
    numbers! { u16;
        /// The region: a handle.
        HANDLE = 0, "UVERBS_ATTR_QUERY_MR_HANDLE";
        /// Its local key: 4 bytes of output.
        RESP_LKEY = 1, "UVERBS_ATTR_QUERY_MR_RESP_LKEY";
        /// Its remote key: 4 bytes of output.
        RESP_RKEY = 2, "UVERBS_ATTR_QUERY_MR_RESP_RKEY";
        /// Its length in bytes: 8 bytes of output.
        RESP_LENGTH = 3, "UVERBS_ATTR_QUERY_MR_RESP_LENGTH";
        /// The address of its first byte: 8 bytes of output.
        RESP_IOVA = 4, "UVERBS_ATTR_QUERY_MR_RESP_IOVA";
    }
}

/// The attributes of [`mr::REG_DMABUF`].
pub mod reg_dmabuf_mr {
    numbers! { u16;
        /// The region: a new handle.
        HANDLE = 0, "UVERBS_ATTR_REG_DMABUF_MR_HANDLE";
        /// The protection domain: a handle.
        PD_HANDLE = 1, "UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE";
        /// Where in the dma-buf it starts, in bytes: 8 bytes of input.
        OFFSET = 2, "UVERBS_ATTR_REG_DMABUF_MR_OFFSET";
        /// Its length in bytes: 8 bytes of input.
        LENGTH = 3, "UVERBS_ATTR_REG_DMABUF_MR_LENGTH";
        /// The address of its first byte in work entries: 8 bytes of input.
        IOVA = 4, "UVERBS_ATTR_REG_DMABUF_MR_IOVA";
        /// The dma-buf: its descriptor, as 4 bytes of input.
        FD = 5, "UVERBS_ATTR_REG_DMABUF_MR_FD";
        /// [`AccessFlags`](super::super::AccessFlags): flags.
        ACCESS_FLAGS = 6, "UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS";
        /// Its local key: 4 bytes of output.
        RESP_LKEY = 7, "UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY";
        /// Its remote key: 4 bytes of output.
        RESP_RKEY = 8, "UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY";
    }
}

/// The attributes of [`async_event::ALLOC`].
pub mod async_event_alloc {
    numbers! { u16;
        /// The file: a new handle, which is its descriptor.
        FD_HANDLE = 0, "UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE";
    }
}
