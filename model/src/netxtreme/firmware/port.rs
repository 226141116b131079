//! The port: its queues and its link.

use super::{Answered, answer, done};
use crate::netxtreme::Netxtreme;
use crate::netxtreme::ring::ENTRY;
use doorbell::bnxt::abi::firmware::port::{
    LINK, PHY_SPEEDS2_SUPPORTED, PortPhyCfgRequest, PortPhyQcapsAnswer, PortPhyQcfgAnswer,
    QueueQportcfgAnswer, phy_cfg_flags,
};
use zerocopy::FromZeros;

/// The speed of the link, in hundreds of Mb/s, and its bit among the speeds.
const SPEED: u16 = 4000;
/// 400 Gb/s over 8 lanes of 50 (`PORT_PHY_QCFG_RESP_SUPPORT_SPEEDS2_400GB_PAM4_56`).
const SPEED_BIT: u16 = 0x200;
/// No queue ([`QueueQportcfgAnswer::queues`]).
const NO_QUEUE: u8 = 0xff;
/// Queues: number and profile, lossy or without loss.
const QUEUES: [u8; 6] = [0, 0, 4, 1, 5, 2];

/// An event of the firmware itself (`struct hwrm_async_event_cmpl`).
mod event {
    /// `type` and `event_id`.
    pub(super) const FIRMWARE: u16 = 0x2e;
    pub(super) const LINK_STATUS_CHANGE: u16 = 0;
    /// `event_data1`: the link is up; and where the port is.
    pub(super) const UP: u32 = 1;
    pub(super) const PORT_SHIFT: u32 = 4;
}

impl Netxtreme {
    pub(super) fn port_queues(&self) -> Answered {
        let mut queues = QueueQportcfgAnswer::new_zeroed();
        queues.max_configurable_queues = (QUEUES.len() / 2) as u8;
        queues.max_configurable_lossless_queues = 1;
        queues.queues = [NO_QUEUE; 16];
        queues.queues[..QUEUES.len()].copy_from_slice(&QUEUES);
        answer(&queues)
    }

    /// Every priority goes to the first queue (`struct hwrm_queue_pri2cos_qcfg_output`).
    pub(super) fn port_priorities(&self) -> Answered {
        Ok(vec![0; 24])
    }

    pub(super) fn link_capabilities(&self) -> Answered {
        let mut can = PortPhyQcapsAnswer::new_zeroed();
        can.port_cnt = 1;
        can.flags2 = PHY_SPEEDS2_SUPPORTED.into();
        can.supported_speeds2_force_mode = SPEED_BIT.into();
        can.supported_speeds2_auto_mode = SPEED_BIT.into();
        answer(&can)
    }

    pub(super) fn link_state(&self) -> Answered {
        /// How the link is negotiated: by a mask of speeds.
        const BY_MASK: u8 = 4;
        /// A copper cable.
        const DIRECT_CABLE: u8 = 2;
        let mut link = PortPhyQcfgAnswer::new_zeroed();
        link.support_speeds2 = SPEED_BIT.into();
        link.auto_mode = BY_MASK;
        link.auto_link_speeds2 = SPEED_BIT.into();
        link.media_type = DIRECT_CABLE;
        link.duplex_cfg = 1;
        if self.is_link_up() {
            link.link = LINK;
            link.link_speed = SPEED.into();
            link.duplex_state = 1;
            link.active_lanes = 8;
        }
        answer(&link)
    }

    pub(super) fn configure_link(&mut self, request: &PortPhyCfgRequest) -> Answered {
        let was = self.is_link_up();
        self.link_forced_down = request.flags.get() & phy_cfg_flags::FORCE_LINK_DWN != 0;
        if was != self.is_link_up() {
            self.tell_link();
        }
        done()
    }

    /// Tells the driver that the link came up or went down.
    pub(in crate::netxtreme) fn tell_link(&mut self) {
        let Some(ring) = self.events else { return };
        let port = 1 << event::PORT_SHIFT;
        let data = port | if self.is_link_up() { event::UP } else { 0 };
        let mut entry = [0; ENTRY as usize];
        entry[..2].copy_from_slice(&event::FIRMWARE.to_le_bytes());
        entry[2..4].copy_from_slice(&event::LINK_STATUS_CHANGE.to_le_bytes());
        entry[12..].copy_from_slice(&data.to_le_bytes());
        self.notify(ring, entry);
    }
}
