//! The older commands: their requests and answers.
//!
//! [`device::INVOKE_WRITE`](super::method::device::INVOKE_WRITE) does them, with the request in
//! `CORE_IN`, room for the answer in `CORE_OUT`, and the driver's parts in `UHW_IN` and `UHW_OUT`.
//! So the `response` fields, which point to the answer for processes that write commands to the
//! file, are 0 here.
//!
//! From Linux's `rdma/ib_user_verbs.h`.

use super::AccessFlags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Added to the number of an extended command (`IB_USER_VERBS_CMD_FLAG_EXTENDED`).
const EXTENDED: u32 = 0x8000_0000;

codes! {
    /// A command's number (`enum ib_uverbs_write_cmds`), with `IB_USER_VERBS_CMD_FLAG_EXTENDED`
    /// for an extended one.
    pub enum WriteCommand: u32, "verbs command" {
        /// Asks about the device: [`QueryDevice`](super::device::QueryDevice),
        /// [`QueryDeviceResp`](super::device::QueryDeviceResp).
        QueryDevice = 1, "IB_USER_VERBS_CMD_QUERY_DEVICE";
        /// Makes a protection domain: [`AllocPd`], [`AllocPdResp`].
        AllocPd = 3, "IB_USER_VERBS_CMD_ALLOC_PD";
        /// Destroys a protection domain: [`DeallocPd`].
        DeallocPd = 4, "IB_USER_VERBS_CMD_DEALLOC_PD";
        /// Registers memory: [`RegMr`], [`RegMrResp`].
        RegMr = 9, "IB_USER_VERBS_CMD_REG_MR";
        /// Deregisters memory: [`DeregMr`].
        DeregMr = 13, "IB_USER_VERBS_CMD_DEREG_MR";
        /// Makes a completion channel: [`CreateCompChannel`], [`CreateCompChannelResp`].
        CreateCompChannel = 17, "IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL";
        /// Makes a completion queue: [`CreateCq`], [`CreateCqResp`].
        CreateCq = 18, "IB_USER_VERBS_CMD_CREATE_CQ";
        /// Destroys a completion queue: [`DestroyCq`], [`DestroyCqResp`].
        DestroyCq = 20, "IB_USER_VERBS_CMD_DESTROY_CQ";
        /// Makes a queue pair: [`CreateQp`](super::qp::CreateQp),
        /// [`CreateQpResp`](super::qp::CreateQpResp).
        CreateQp = 24, "IB_USER_VERBS_CMD_CREATE_QP";
        /// Asks about a queue pair: [`QueryQp`](super::qp::QueryQp),
        /// [`QueryQpResp`](super::qp::QueryQpResp).
        QueryQp = 25, "IB_USER_VERBS_CMD_QUERY_QP";
        /// Changes a queue pair: [`ModifyQp`](super::qp::ModifyQp).
        ModifyQp = 26, "IB_USER_VERBS_CMD_MODIFY_QP";
        /// Destroys a queue pair: [`DestroyQp`](super::qp::DestroyQp),
        /// [`DestroyQpResp`](super::qp::DestroyQpResp).
        DestroyQp = 27, "IB_USER_VERBS_CMD_DESTROY_QP";
        /// Asks more about the device: [`ExQueryDevice`](super::device::ExQueryDevice),
        /// [`ExQueryDeviceResp`](super::device::ExQueryDeviceResp).
        ExQueryDevice = EXTENDED | 1, "IB_USER_VERBS_EX_CMD_QUERY_DEVICE";
        /// Makes a completion queue: [`ExCreateCq`], [`ExCreateCqResp`].
        ExCreateCq = EXTENDED | 18, "IB_USER_VERBS_EX_CMD_CREATE_CQ";
        /// Makes a queue pair: [`ExCreateQp`](super::qp::ExCreateQp),
        /// [`ExCreateQpResp`](super::qp::ExCreateQpResp).
        ExCreateQp = EXTENDED | 24, "IB_USER_VERBS_EX_CMD_CREATE_QP";
        /// Changes a queue pair: [`ExModifyQp`](super::qp::ExModifyQp),
        /// [`ExModifyQpResp`](super::qp::ExModifyQpResp).
        ExModifyQp = EXTENDED | 26, "IB_USER_VERBS_EX_CMD_MODIFY_QP";
    }
}

/// Makes a protection domain (`struct ib_uverbs_alloc_pd`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AllocPd {
    /// 0.
    pub response: u64,
}

layout!(AllocPd: size 8, align 8, { response: 0 });

/// The protection domain made (`struct ib_uverbs_alloc_pd_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AllocPdResp {
    /// Its handle.
    pub pd_handle: u32,
}

layout!(AllocPdResp: size 4, align 4, { pd_handle: 0 });

/// Destroys a protection domain (`struct ib_uverbs_dealloc_pd`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DeallocPd {
    /// Its handle.
    pub pd_handle: u32,
}

layout!(DeallocPd: size 4, align 4, { pd_handle: 0 });

/// Registers memory (`struct ib_uverbs_reg_mr`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RegMr {
    /// 0.
    pub response: u64,
    /// The address of its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The address of its first byte in work entries; equal to `start` modulo the page size.
    pub hca_va: u64,
    /// The protection domain.
    pub pd_handle: u32,
    /// What may be done to it.
    pub access_flags: AccessFlags,
}

layout!(RegMr: size 40, align 8, {
    response: 0, start: 8, length: 16, hca_va: 24, pd_handle: 32, access_flags: 36,
});

/// The region made (`struct ib_uverbs_reg_mr_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RegMrResp {
    /// Its handle.
    pub mr_handle: u32,
    /// Its local key.
    pub lkey: u32,
    /// Its remote key.
    pub rkey: u32,
}

layout!(RegMrResp: size 12, align 4, { mr_handle: 0, lkey: 4, rkey: 8 });

/// Deregisters memory (`struct ib_uverbs_dereg_mr`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DeregMr {
    /// Its handle.
    pub mr_handle: u32,
}

layout!(DeregMr: size 4, align 4, { mr_handle: 0 });

/// Makes a completion channel (`struct ib_uverbs_create_comp_channel`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCompChannel {
    /// 0.
    pub response: u64,
}

layout!(CreateCompChannel: size 8, align 8, { response: 0 });

/// The completion channel made (`struct ib_uverbs_create_comp_channel_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCompChannelResp {
    /// Its descriptor.
    pub fd: u32,
}

layout!(CreateCompChannelResp: size 4, align 4, { fd: 0 });

/// Makes a completion queue (`struct ib_uverbs_create_cq`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCq {
    /// 0.
    pub response: u64,
    /// What its events carry.
    pub user_handle: u64,
    /// The least number of entries.
    pub cqe: u32,
    /// The completion vector.
    pub comp_vector: u32,
    /// The descriptor of its completion channel, or -1.
    pub comp_channel: i32,
    /// 0.
    pub reserved: u32,
}

layout!(CreateCq: size 32, align 8, {
    response: 0, user_handle: 8, cqe: 16, comp_vector: 20, comp_channel: 24, reserved: 28,
});

/// The completion queue made (`struct ib_uverbs_create_cq_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C, align(8))]
pub struct CreateCqResp {
    /// Its handle.
    pub cq_handle: u32,
    /// The number of entries it has.
    pub cqe: u32,
}

layout!(CreateCqResp: size 8, align 8, { cq_handle: 0, cqe: 4 });

/// Makes a completion queue (`struct ib_uverbs_ex_create_cq`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExCreateCq {
    /// What its events carry.
    pub user_handle: u64,
    /// The least number of entries.
    pub cqe: u32,
    /// The completion vector.
    pub comp_vector: u32,
    /// The descriptor of its completion channel, or -1.
    pub comp_channel: i32,
    /// 0.
    pub comp_mask: u32,
    /// `enum ib_uverbs_ex_create_cq_flags`.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

layout!(ExCreateCq: size 32, align 8, {
    user_handle: 0, cqe: 8, comp_vector: 12, comp_channel: 16, comp_mask: 20, flags: 24,
    reserved: 28,
});

/// The completion queue made (`struct ib_uverbs_ex_create_cq_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ExCreateCqResp {
    /// What kernels said before.
    pub base: CreateCqResp,
    /// 0.
    pub comp_mask: u32,
    /// Bytes of this answer that the kernel filled in.
    pub response_length: u32,
}

layout!(ExCreateCqResp: size 16, align 8, { base: 0, comp_mask: 8, response_length: 12 });

/// Destroys a completion queue (`struct ib_uverbs_destroy_cq`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyCq {
    /// 0.
    pub response: u64,
    /// Its handle.
    pub cq_handle: u32,
    /// 0.
    pub reserved: u32,
}

layout!(DestroyCq: size 16, align 8, { response: 0, cq_handle: 8, reserved: 12 });

/// How many events the completion queue had raised (`struct ib_uverbs_destroy_cq_resp`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyCqResp {
    /// Completion events.
    pub comp_events_reported: u32,
    /// Asynchronous events.
    pub async_events_reported: u32,
}

layout!(DestroyCqResp: size 8, align 4, { comp_events_reported: 0, async_events_reported: 4 });
