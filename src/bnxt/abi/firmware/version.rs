//! The version of the firmware, and the bounds of its channel.
//!
//! From Linux's `bnxt_hsi.h`. All little-endian.

use super::{AnswerHeader, RequestHeader, RequestType};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Asks for the version. The first request, always whole (`struct hwrm_ver_get_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VerGetRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The version of the interface that the driver knows.
    pub hwrm_intf_maj: u8,
    /// Its minor number.
    pub hwrm_intf_min: u8,
    /// Its update.
    pub hwrm_intf_upd: u8,
    unused0: [u8; 5],
}

layout!(VerGetRequest: size 24, align 1, {
    header: 0, hwrm_intf_maj: 16, hwrm_intf_min: 17, hwrm_intf_upd: 18,
});

/// Versions, the chip, and the bounds of the channel (`struct hwrm_ver_get_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VerGetAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// The version of the interface that the firmware knows.
    pub hwrm_intf_maj_8b: u8,
    /// Its minor number.
    pub hwrm_intf_min_8b: u8,
    /// Its update.
    pub hwrm_intf_upd_8b: u8,
    unused0: [u8; 1],
    /// The version of the firmware.
    pub hwrm_fw_maj_8b: u8,
    /// Its minor number.
    pub hwrm_fw_min_8b: u8,
    /// Its build.
    pub hwrm_fw_bld_8b: u8,
    /// Its patch.
    pub hwrm_fw_rsvd_8b: u8,
    unused1: [u8; 8],
    /// What the channel can ([`channel_caps`]).
    pub dev_caps_cfg: U32,
    unused2: [u8; 4],
    /// The firmware, a string that zeroes end.
    pub hwrm_fw_name: [u8; 16],
    unused3: [u8; 32],
    /// The package that is installed, a string that zeroes end. Empty asks for a look into the
    /// flash memory.
    pub active_pkg_name: [u8; 16],
    unused4: [u8; 16],
    /// The chip: 0x1760 is the BCM57608.
    pub chip_num: U16,
    /// Its revision.
    pub chip_rev: u8,
    /// Its metal revision.
    pub chip_metal: u8,
    /// Its bond option.
    pub chip_bond_id: u8,
    unused5: [u8; 1],
    /// Bytes of the longest request that the register window takes.
    pub max_req_win_len: U16,
    /// Bytes of the longest answer.
    pub max_resp_len: U16,
    /// Milliseconds that a request takes at most, unless it is a long one.
    pub def_req_timeout: U16,
    /// Whether the device can work yet ([`device_flags`]).
    pub flags: u8,
    unused6: [u8; 3],
    /// The version of the interface, in 16 bits.
    pub hwrm_intf_major: U16,
    /// Its minor number.
    pub hwrm_intf_minor: U16,
    /// Its build.
    pub hwrm_intf_build: U16,
    /// Its patch.
    pub hwrm_intf_patch: U16,
    /// The version of the firmware, in 16 bits.
    pub hwrm_fw_major: U16,
    /// Its minor number.
    pub hwrm_fw_minor: U16,
    /// Its build.
    pub hwrm_fw_build: U16,
    /// Its patch.
    pub hwrm_fw_patch: U16,
    unused7: [u8; 16],
    /// The version of the RoCE firmware, in 16 bits.
    pub roce_fw_major: U16,
    /// Its minor number.
    pub roce_fw_minor: U16,
    /// Its build.
    pub roce_fw_build: U16,
    /// Its patch.
    pub roce_fw_patch: U16,
    /// Bytes of the longest request in memory.
    pub max_ext_req_len: U16,
    /// Seconds that the longest request takes at most; 0 says nothing.
    pub max_req_timeout: U16,
    unused8: [u8; 3],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(VerGetAnswer: size 176, align 1, {
    header: 0, hwrm_intf_maj_8b: 8, hwrm_intf_min_8b: 9, hwrm_intf_upd_8b: 10, hwrm_fw_maj_8b: 12, hwrm_fw_min_8b: 13, hwrm_fw_bld_8b: 14, hwrm_fw_rsvd_8b: 15, dev_caps_cfg: 24, hwrm_fw_name: 32, active_pkg_name: 80, chip_num: 112, chip_rev: 114, chip_metal: 115, chip_bond_id: 116, max_req_win_len: 118, max_resp_len: 120, def_req_timeout: 122, flags: 124, hwrm_intf_major: 128, hwrm_intf_minor: 130, hwrm_intf_build: 132, hwrm_intf_patch: 134, hwrm_fw_major: 136, hwrm_fw_minor: 138, hwrm_fw_build: 140, hwrm_fw_patch: 142, roce_fw_major: 160, roce_fw_minor: 162, roce_fw_build: 164, roce_fw_patch: 166, max_ext_req_len: 168, max_req_timeout: 170, valid: 175,
});

request!(VerGetRequest: VerGet => VerGetAnswer);

/// Bits of [`VerGetAnswer::dev_caps_cfg`].
pub mod channel_caps {
    numbers! { u32;
        /// Requests may be in memory ([`ShortRequest`](super::super::ShortRequest)).
        SHORT_CMD_SUPPORTED = 0x4, "VER_GET_RESP_DEV_CAPS_CFG_SHORT_CMD_SUPPORTED";
        /// Requests have to be in memory.
        SHORT_CMD_REQUIRED = 0x8, "VER_GET_RESP_DEV_CAPS_CFG_SHORT_CMD_REQUIRED";
        /// There is a second channel.
        KONG_MB_CHNL = 0x10, "VER_GET_RESP_DEV_CAPS_CFG_KONG_MB_CHNL_SUPPORTED";
    }
}

/// Bits of [`VerGetAnswer::flags`].
pub mod device_flags {
    numbers! { u8;
        /// The device is not ready.
        DEV_NOT_RDY = 0x1, "VER_GET_RESP_FLAGS_DEV_NOT_RDY";
        /// The device waits for its backing store.
        DEV_NOT_RDY_BACKING_STORE = 0x4, "VER_GET_RESP_FLAGS_DEV_NOT_RDY_BACKING_STORE";
    }
}
