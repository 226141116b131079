//! The function: versions, capabilities, reservations, and who drives it.

use super::{Answered, answer, done};
use crate::fabric::Fabric;
use crate::netxtreme::Netxtreme;
use crate::netxtreme::registers::{DOORBELL_QUEUE, FIRST_DOORBELL_PAGE, PAGE, USER_DOORBELL_PAGE};
use doorbell::bnxt::abi::firmware::function::{
    FUNC_CFG_ASSETS_TESTS, FuncCfgRequest, FuncDbrPacingQcfgAnswer, FuncDrvRgtrAnswer,
    FuncQcapsAnswer, FuncQcfgAnswer, FuncResourceQcapsAnswer, func_caps, func_caps_ext,
    func_caps_ext2, func_cfg_enables as enables,
};
use doorbell::bnxt::abi::firmware::version::VerGetAnswer;
use doorbell::bnxt::abi::firmware::{ErrorCode, WINDOW_BYTES};
use zerocopy::FromZeros;

/// The chip's number: BCM57608.
const CHIP: u16 = 0x1760;
/// The version of the interface of the firmware channel.
const INTERFACE: [u8; 4] = [1, 10, 3, 85];
/// The version of the firmware. From 220 on, drivers use what the others of this NIC have.
const FIRMWARE: [u8; 4] = [233, 0, 0, 0];
/// Doorbells that wait when pacing begins, as Linux' driver has it.
const THRESHOLD: u32 = 250;
/// The number of the function, and of its port.
const FUNCTION: u16 = 1;
/// Milliseconds and seconds that a driver waits for an answer.
const TIMEOUT: u16 = 2000;
const LONGEST_TIMEOUT: u16 = 40;

/// The bounds of what can be reserved.
const MOST_RINGS: u16 = 256;
const MOST_INTERFACES: u16 = 64;
const MOST_STATISTICS: u16 = 256;
const MOST_SCALING: u16 = 256;
const MOST_FILTERS: u16 = 256;
/// The longest frame's bytes after the header.
const LONGEST_FRAME: u16 = 9600;

/// What a driver has reserved.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::netxtreme) struct Reservations {
    vectors: u16,
    scaling: u16,
    completion_rings: u16,
    transmit_rings: u16,
    receive_rings: u16,
    filters: u16,
    interfaces: u16,
    statistics: u16,
    groups: u16,
}

/// The bytes of a string field.
fn text<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    for (byte, letter) in bytes.iter_mut().zip(text.bytes()) {
        *byte = letter;
    }
    bytes
}

impl Netxtreme {
    pub(super) fn version(&self) -> Answered {
        let mut version = VerGetAnswer::new_zeroed();
        let [major, minor, update, patch] = INTERFACE;
        (version.hwrm_intf_maj_8b, version.hwrm_intf_min_8b) = (major, minor);
        version.hwrm_intf_upd_8b = update;
        version.hwrm_intf_major = u16::from(major).into();
        version.hwrm_intf_minor = u16::from(minor).into();
        version.hwrm_intf_build = u16::from(update).into();
        version.hwrm_intf_patch = u16::from(patch).into();
        let [major, minor, build, patch] = FIRMWARE;
        (version.hwrm_fw_maj_8b, version.hwrm_fw_min_8b) = (major, minor);
        (version.hwrm_fw_bld_8b, version.hwrm_fw_rsvd_8b) = (build, patch);
        let (major, minor) = (u16::from(major).into(), u16::from(minor).into());
        (version.hwrm_fw_major, version.roce_fw_major) = (major, major);
        (version.hwrm_fw_minor, version.roce_fw_minor) = (minor, minor);
        version.hwrm_fw_name = text("doorbell");
        version.active_pkg_name = text("233.0.0.0");
        version.chip_num = CHIP.into();
        version.max_req_win_len = (WINDOW_BYTES as u16).into();
        version.max_ext_req_len = (WINDOW_BYTES as u16).into();
        version.max_resp_len = 704.into();
        version.def_req_timeout = TIMEOUT.into();
        version.max_req_timeout = LONGEST_TIMEOUT.into();
        answer(&version)
    }

    pub(super) fn function_capabilities(&self) -> Answered {
        let bounds = &self.identity.bounds;
        let mut can = FuncQcapsAnswer::new_zeroed();
        can.fid = FUNCTION.into();
        can.port_id = FUNCTION.into();
        can.flags = func_caps::ROCE_V2_SUPPORTED.into();
        can.mac_address = self.identity.mac;
        can.max_rsscos_ctx = MOST_SCALING.into();
        can.max_cmpl_rings = MOST_RINGS.into();
        can.max_tx_rings = MOST_RINGS.into();
        can.max_rx_rings = MOST_RINGS.into();
        can.max_l2_ctxs = MOST_FILTERS.into();
        can.max_vnics = MOST_INTERFACES.into();
        can.max_stat_ctx = MOST_STATISTICS.into();
        can.max_mcast_filters = u32::from(MOST_FILTERS).into();
        can.max_hw_ring_grps = u32::from(MOST_RINGS).into();
        can.flags_ext = (func_caps_ext::BS_V2_SUPPORTED | func_caps_ext::BS_V2_REQUIRED).into();
        let mut more = 0;
        if bounds.limits_are_the_drivers {
            more |= func_caps_ext2::SW_MAX_RESOURCE_LIMITS_SUPPORTED;
        }
        if bounds.paced {
            more |= func_caps_ext2::DBR_PACING_EXT_SUPPORTED;
        }
        can.flags_ext2 = more.into();
        answer(&can)
    }

    pub(super) fn function_configuration(&self) -> Answered {
        let has = &self.reservations;
        let mut set = FuncQcfgAnswer::new_zeroed();
        set.fid = FUNCTION.into();
        set.port_id = FUNCTION.into();
        set.mac_address = self.identity.mac;
        set.alloc_rsscos_ctx = has.scaling.into();
        set.alloc_cmpl_rings = has.completion_rings.into();
        set.alloc_tx_rings = has.transmit_rings.into();
        set.alloc_rx_rings = has.receive_rings.into();
        set.alloc_l2_ctx = has.filters.into();
        set.alloc_vnics = has.interfaces.into();
        set.alloc_hw_ring_grps = u32::from(has.groups).into();
        set.alloc_stat_ctx = has.statistics.into();
        set.alloc_msix = has.vectors.into();
        set.max_mtu_configured = LONGEST_FRAME.into();
        let kibibytes = |page: u32| ((u64::from(page) * PAGE) >> 10) as u16;
        set.l2_doorbell_bar_size_kb = kibibytes(USER_DOORBELL_PAGE).into();
        set.legacy_l2_db_size_kb = kibibytes(FIRST_DOORBELL_PAGE).into();
        answer(&set)
    }

    /// Reserves what is asked for, or only says whether it would.
    pub(super) fn configure_function(&mut self, request: &FuncCfgRequest) -> Answered {
        let asked = request.enables.get();
        let vectors = self.identity.bounds.vectors;
        let mut new = self.reservations;
        let fields = [
            (enables::NUM_MSIX, request.num_msix, &mut new.vectors, vectors),
            (enables::NUM_RSSCOS_CTXS, request.num_rsscos_ctxs, &mut new.scaling, MOST_SCALING),
            (
                enables::NUM_CMPL_RINGS,
                request.num_cmpl_rings,
                &mut new.completion_rings,
                MOST_RINGS,
            ),
            (enables::NUM_TX_RINGS, request.num_tx_rings, &mut new.transmit_rings, MOST_RINGS),
            (enables::NUM_RX_RINGS, request.num_rx_rings, &mut new.receive_rings, MOST_RINGS),
            (enables::NUM_L2_CTXS, request.num_l2_ctxs, &mut new.filters, MOST_FILTERS),
            (enables::NUM_VNICS, request.num_vnics, &mut new.interfaces, MOST_INTERFACES),
            (enables::NUM_STAT_CTXS, request.num_stat_ctxs, &mut new.statistics, MOST_STATISTICS),
        ];
        for (bit, wanted, field, most) in fields {
            if asked & bit == 0 {
                continue;
            }
            if wanted.get() > most {
                return Err(ErrorCode::ResourceAllocError);
            }
            *field = wanted.get();
        }
        if request.flags.get() & FUNC_CFG_ASSETS_TESTS != 0 {
            return done();
        }
        if asked & enables::ASYNC_EVENT_CR != 0 {
            let ring = request.async_event_cr.get();
            let is_one = self.rings.get(&ring).is_some_and(|ring| ring.is_notifications());
            if !is_one {
                return Err(ErrorCode::InvalidParams);
            }
            self.events = Some(ring);
        }
        self.reservations = new;
        done()
    }

    pub(super) fn function_resources(&self) -> Answered {
        let mut bounds = FuncResourceQcapsAnswer::new_zeroed();
        bounds.max_msix = self.identity.bounds.vectors.into();
        bounds.max_rsscos_ctx = MOST_SCALING.into();
        bounds.max_cmpl_rings = MOST_RINGS.into();
        bounds.max_tx_rings = MOST_RINGS.into();
        bounds.max_rx_rings = MOST_RINGS.into();
        bounds.max_l2_ctxs = MOST_FILTERS.into();
        bounds.max_vnics = MOST_INTERFACES.into();
        bounds.max_stat_ctx = MOST_STATISTICS.into();
        bounds.max_hw_ring_grps = MOST_RINGS.into();
        bounds.max_tx_scheduler_inputs = MOST_RINGS.into();
        answer(&bounds)
    }

    pub(super) fn register_driver(&mut self) -> Answered {
        self.driven = true;
        answer(&FuncDrvRgtrAnswer::new_zeroed())
    }

    pub(super) fn unregister_driver(&mut self, fabric: &mut dyn Fabric) -> Answered {
        self.forget_everything(fabric);
        self.driven = false;
        done()
    }

    pub(super) fn doorbell_pacing(&self) -> Answered {
        if !self.identity.bounds.paced {
            return Err(ErrorCode::CmdNotSupported);
        }
        /// The register is one of the chip's own (`DBR_STAT_DB_FIFO_REG_ADDR_SPACE_GRC`).
        const CHIP_REGISTER: u32 = 1;
        let mut pacing = FuncDbrPacingQcfgAnswer::new_zeroed();
        pacing.dbr_stat_db_fifo_reg = (DOORBELL_QUEUE | CHIP_REGISTER).into();
        let depth = self.identity.bounds.doorbells;
        let mask = depth.checked_next_power_of_two().map_or(u32::MAX, |above| 2 * above - 1);
        pacing.dbr_stat_db_fifo_reg_fifo_room_mask = mask.into();
        pacing.dbr_stat_db_max_fifo_depth = depth.into();
        pacing.pacing_threshold = THRESHOLD.min(depth / 4).into();
        answer(&pacing)
    }
}
