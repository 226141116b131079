//! The firmware channel (HWRM): requests and their answers.
//!
//! A driver writes a request into the window at [`WINDOW`] of BAR 0, as words of 4 bytes, fills the
//! rest of the window with zeroes and writes 1 to [`TRIGGER`]. The firmware writes the answer to the
//! request's [`resp_addr`](RequestHeader::resp_addr), its last byte last. A request that is longer than
//! the window is written to memory, and a [`ShortRequest`] into the window.
//!
//! | module | holds |
//! |---|---|
//! | [`version`] | the version of the firmware, and the bounds of the channel |
//! | [`function`] | the function: reset, capabilities, reservations, its driver |
//! | [`context`] | the backing store: memory that the firmware works in |
//! | [`port`] | the port: queues and link |
//! | [`ring`] | rings and statistics |
//! | [`receive`] | VNICs and filters: which frames come in, and where to |
//!
//! Requests begin with a [`RequestHeader`], answers with an [`AnswerHeader`]; fields have the header's
//! names. Bytes that are not named are 0.
//!
//! From Linux's `bnxt_hsi.h`. All little-endian.

/// Ties a request to its number and its answer.
macro_rules! request {
    ($request:ty: $kind:ident => $answer:ty) => {
        impl super::Request for $request {
            const TYPE: RequestType = RequestType::$kind;
            type Answer = $answer;

            fn header_mut(&mut self) -> &mut RequestHeader {
                &mut self.header
            }
        }
    };
}

pub mod context;
pub mod function;
pub mod port;
pub mod receive;
pub mod ring;
pub mod version;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where requests are written, in BAR 0 (`BNXT_GRCPF_REG_CHIMP_COMM`).
pub const WINDOW: usize = 0;
/// Where a request is announced, in BAR 0 (`BNXT_GRCPF_REG_CHIMP_COMM_TRIGGER`).
pub const TRIGGER: usize = 0x100;
/// Bytes of the window that can be counted on before [`version::VerGetAnswer`] says how many there are
/// (`HWRM_MAX_REQ_LEN`).
pub const WINDOW_BYTES: usize = 128;
/// Where the firmware says how it is, in BAR 0: 0 or 0x8000 in the low 16 bits when it is well.
pub const HEALTH: usize = 0x520;

/// The completion ring of a request whose answer is looked for in memory.
pub const NO_RING: u16 = 0xffff;
/// The function that asks.
pub const OWN_FUNCTION: u16 = 0xffff;

/// The first bytes of a request (`struct input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RequestHeader {
    /// What is asked: the number of a [`RequestType`].
    pub req_type: U16,
    /// The completion ring that is told of the answer, or [`NO_RING`].
    pub cmpl_ring: U16,
    /// A number that the answer repeats.
    pub seq_id: U16,
    /// Who answers; [`OWN_FUNCTION`].
    pub target_id: U16,
    /// The device address of the answer.
    pub resp_addr: U64,
}

layout!(RequestHeader: size 16, align 1, {
    req_type: 0, cmpl_ring: 2, seq_id: 4, target_id: 6, resp_addr: 8,
});

/// A request that is in memory (`struct hwrm_short_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ShortRequest {
    /// What is asked.
    pub req_type: U16,
    /// [`SHORT_SIGNATURE`].
    pub signature: U16,
    /// Who answers: 0.
    pub target_id: U16,
    /// Bytes of the request.
    pub size: U16,
    /// The device address of the request.
    pub req_addr: U64,
}

layout!(ShortRequest: size 16, align 1, {
    req_type: 0, signature: 2, target_id: 4, size: 6, req_addr: 8,
});

/// What tells a [`ShortRequest`] from others (`SHORT_REQ_SIGNATURE_SHORT_CMD`).
pub const SHORT_SIGNATURE: u16 = 0x4321;

/// The first bytes of an answer (`struct output`). The last byte of an answer,
/// [`resp_len`](Self::resp_len) - 1, is 1 once all the others are written.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct AnswerHeader {
    /// The number of a [`ErrorCode`].
    pub error_code: U16,
    /// What was asked.
    pub req_type: U16,
    /// The request's number.
    pub seq_id: U16,
    /// Bytes of the answer.
    pub resp_len: U16,
}

layout!(AnswerHeader: size 8, align 1, { error_code: 0, req_type: 2, seq_id: 4, resp_len: 6 });

/// The answer to a request that has nothing to say (16 bytes, as `struct hwrm_func_reset_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct EmptyAnswer {
    /// How it went.
    pub header: AnswerHeader,
    unused: [u8; 7],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(EmptyAnswer: size 16, align 1, { header: 0, valid: 15 });

/// The answer to a request that was refused (`struct hwrm_err_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ErrorAnswer {
    /// Why.
    pub header: AnswerHeader,
    /// Only the firmware's makers know.
    pub opaque_0: U32,
    /// The same.
    pub opaque_1: U16,
    /// Why, in the request's own terms.
    pub cmd_err: u8,
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(ErrorAnswer: size 16, align 1, {
    header: 0, opaque_0: 8, opaque_1: 12, cmd_err: 14, valid: 15,
});

/// A request: bytes that begin with a [`RequestHeader`].
pub trait Request: Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// Its number.
    const TYPE: RequestType;

    /// What answers it.
    type Answer: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned;

    /// Its first bytes.
    fn header_mut(&mut self) -> &mut RequestHeader;

    /// A request of zeroes with its header, but for the sequence number and the answer's address.
    fn new() -> Self {
        let mut request = Self::new_zeroed();
        *request.header_mut() = RequestHeader {
            req_type: Self::TYPE.code().into(),
            cmpl_ring: NO_RING.into(),
            seq_id: 0.into(),
            target_id: OWN_FUNCTION.into(),
            resp_addr: 0.into(),
        };
        request
    }
}

codes! {
    /// What a request asks (`struct hwrm_cmd_hdr`, `HWRM_*`).
    pub enum RequestType: u16, else Other {
        /// The version of the firmware.
        VerGet = 0x0, "HWRM_VER_GET";
        /// A function's reset.
        FuncReset = 0x11, "HWRM_FUNC_RESET";
        /// What a function can.
        FuncQcaps = 0x15, "HWRM_FUNC_QCAPS";
        /// What a function was given.
        FuncQcfg = 0x16, "HWRM_FUNC_QCFG";
        /// Resources for a function.
        FuncCfg = 0x17, "HWRM_FUNC_CFG";
        /// The end of a driver.
        FuncDrvUnrgtr = 0x1a, "HWRM_FUNC_DRV_UNRGTR";
        /// A driver.
        FuncDrvRgtr = 0x1d, "HWRM_FUNC_DRV_RGTR";
        /// A link's setting.
        PortPhyCfg = 0x20, "HWRM_PORT_PHY_CFG";
        /// A port's counts.
        PortQstats = 0x23, "HWRM_PORT_QSTATS";
        /// A link's state.
        PortPhyQcfg = 0x27, "HWRM_PORT_PHY_QCFG";
        /// What a link can.
        PortPhyQcaps = 0x2a, "HWRM_PORT_PHY_QCAPS";
        /// A port's lamps.
        PortLedQcaps = 0x2f, "HWRM_PORT_LED_QCAPS";
        /// A port's queues.
        QueueQportcfg = 0x30, "HWRM_QUEUE_QPORTCFG";
        /// Which queue has which priority.
        QueuePri2cosQcfg = 0x37, "HWRM_QUEUE_PRI2COS_QCFG";
        /// A VNIC.
        VnicAlloc = 0x40, "HWRM_VNIC_ALLOC";
        /// A VNIC's end.
        VnicFree = 0x41, "HWRM_VNIC_FREE";
        /// A VNIC's setting.
        VnicCfg = 0x42, "HWRM_VNIC_CFG";
        /// How frames of a VNIC are put together.
        VnicTpaCfg = 0x44, "HWRM_VNIC_TPA_CFG";
        /// A VNIC's receive-side scaling.
        VnicRssCfg = 0x46, "HWRM_VNIC_RSS_CFG";
        /// Where frames of a VNIC are split.
        VnicPlcmodesCfg = 0x48, "HWRM_VNIC_PLCMODES_CFG";
        /// What VNICs can.
        VnicQcaps = 0x4a, "HWRM_VNIC_QCAPS";
        /// A ring.
        RingAlloc = 0x50, "HWRM_RING_ALLOC";
        /// A ring's end.
        RingFree = 0x51, "HWRM_RING_FREE";
        /// How often a completion ring interrupts.
        RingCmplRingCfgAggintParams = 0x53, "HWRM_RING_CMPL_RING_CFG_AGGINT_PARAMS";
        /// The bounds of that.
        RingAggintQcaps = 0x54, "HWRM_RING_AGGINT_QCAPS";
        /// A context of receive-side scaling.
        VnicRssCosLbCtxAlloc = 0x70, "HWRM_VNIC_RSS_COS_LB_CTX_ALLOC";
        /// Its end.
        VnicRssCosLbCtxFree = 0x71, "HWRM_VNIC_RSS_COS_LB_CTX_FREE";
        /// A filter of frames.
        CfaL2FilterAlloc = 0x90, "HWRM_CFA_L2_FILTER_ALLOC";
        /// Its end.
        CfaL2FilterFree = 0x91, "HWRM_CFA_L2_FILTER_FREE";
        /// Frames that no filter names.
        CfaL2SetRxMask = 0x93, "HWRM_CFA_L2_SET_RX_MASK";
        /// A statistics context.
        StatCtxAlloc = 0xb0, "HWRM_STAT_CTX_ALLOC";
        /// Its end.
        StatCtxFree = 0xb1, "HWRM_STAT_CTX_FREE";
        /// A port's further counts.
        PortQstatsExt = 0xb4, "HWRM_PORT_QSTATS_EXT";
        /// The time of day.
        FwSetTime = 0xc8, "HWRM_FW_SET_TIME";
        /// The bounds of reservations.
        FuncResourceQcaps = 0x190, "HWRM_FUNC_RESOURCE_QCAPS";
        /// The backing store's types.
        FuncBackingStoreCfgV2 = 0x1a3, "HWRM_FUNC_BACKING_STORE_CFG_V2";
        /// How doorbells are paced.
        FuncDbrPacingQcfg = 0x1a6, "HWRM_FUNC_DBR_PACING_QCFG";
        /// The backing store's memory.
        FuncBackingStoreQcapsV2 = 0x1a8, "HWRM_FUNC_BACKING_STORE_QCAPS_V2";
        /// The flash memory.
        NvmGetDevInfo = 0xfff6, "HWRM_NVM_GET_DEV_INFO";
    }
}

codes! {
    /// Why a request was refused (`HWRM_ERR_CODE_*`).
    pub enum ErrorCode: u16, else Other {
        /// It was not.
        Success = 0, "HWRM_ERR_CODE_SUCCESS";
        /// For a reason of the firmware's.
        Fail = 1, "HWRM_ERR_CODE_FAIL";
        /// A field has a value that it may not have.
        InvalidParams = 2, "HWRM_ERR_CODE_INVALID_PARAMS";
        /// It is somebody else's.
        ResourceAccessDenied = 3, "HWRM_ERR_CODE_RESOURCE_ACCESS_DENIED";
        /// There is none left.
        ResourceAllocError = 4, "HWRM_ERR_CODE_RESOURCE_ALLOC_ERROR";
        /// A flag that may not be set.
        InvalidFlags = 5, "HWRM_ERR_CODE_INVALID_FLAGS";
        /// A field that may not be set.
        InvalidEnables = 6, "HWRM_ERR_CODE_INVALID_ENABLES";
        /// No room for the answer.
        NoBuffer = 8, "HWRM_ERR_CODE_NO_BUFFER";
        /// The firmware is about to be reset.
        HotResetProgress = 0xa, "HWRM_ERR_CODE_HOT_RESET_PROGRESS";
        /// The firmware failed.
        HwrmError = 0xf, "HWRM_ERR_CODE_HWRM_ERROR";
        /// Not now.
        Busy = 0x10, "HWRM_ERR_CODE_BUSY";
        /// There is no such thing.
        EntityNotPresent = 0x13, "HWRM_ERR_CODE_ENTITY_NOT_PRESENT";
        /// Nobody knows why.
        UnknownError = 0xfffe, "HWRM_ERR_CODE_UNKNOWN_ERR";
        /// No such request.
        CmdNotSupported = 0xffff, "HWRM_ERR_CODE_CMD_NOT_SUPPORTED";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_request_is_its_header_and_zeroes() {
        let request = function::FuncQcapsRequest::new();
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&[0x15, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
        assert_eq!(request.as_bytes(), bytes);
    }
}
