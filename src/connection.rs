//! How a queue pair behaves towards its peer, and what it lets it do. The same for every NIC family.

use crate::endpoint::Mtu;
use crate::error::Error;
use crate::timer::{AckTimeout, RnrTimer};
use core::ops::BitOr;

/// What the peer may do to this side's memory through a queue pair, besides sending: of what a
/// region allows, only what its queue pair allows, too.
///
/// ```
/// use doorbell::connection::PeerRights;
/// let rights = PeerRights::WRITE | PeerRights::READ;
/// assert!(rights.contains(PeerRights::READ) && !rights.contains(PeerRights::ATOMIC));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerRights(u8);

impl PeerRights {
    /// Nothing.
    pub const NONE: PeerRights = PeerRights(0);
    /// Write.
    pub const WRITE: PeerRights = PeerRights(1);
    /// Read.
    pub const READ: PeerRights = PeerRights(2);
    /// Fetch-and-add, compare-and-swap.
    pub const ATOMIC: PeerRights = PeerRights(4);

    /// Whether all of `rights` are among these.
    pub const fn contains(self, rights: PeerRights) -> bool {
        self.0 & rights.0 == rights.0
    }

    /// These and `others`.
    pub const fn and(self, others: PeerRights) -> PeerRights {
        PeerRights(self.0 | others.0)
    }
}

impl BitOr for PeerRights {
    type Output = PeerRights;

    fn bitor(self, other: PeerRights) -> PeerRights {
        self.and(other)
    }
}

/// How a queue pair behaves towards its peer. The [default](Self::default) is what a network that
/// rarely loses packets wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// How long the peer is asked to wait when it finds no receive posted here. 640 us.
    pub rnr_timer: RnrTimer,
    /// How long an acknowledgement is waited for before sending again. 67.1 ms.
    pub ack_timeout: AckTimeout,
    /// How often it is sent again, at most: from 0 to 7. 7.
    pub retries: u8,
    /// How often it is sent again when the peer has no receive posted: from 0 to 6, or
    /// [`FOREVER`](Self::FOREVER). That.
    pub rnr_retries: u8,
    /// The most bytes of a packet, if less than both ports can. None.
    pub max_mtu: Option<Mtu>,
    /// How many routers a packet may pass. 64.
    pub hop_limit: u8,
    /// The traffic class of packets; on IP, the byte of DSCP and ECN. 0.
    pub traffic_class: u8,
    /// The service level, from 0 to 15. 0.
    pub service_level: u8,
}

impl Connection {
    /// For [`rnr_retries`](Self::rnr_retries): again and again.
    pub const FOREVER: u8 = 7;

    /// The values that stand in the fields' descriptions.
    pub const fn new() -> Self {
        Connection {
            rnr_timer: RnrTimer::US_640,
            ack_timeout: AckTimeout::MS_67,
            retries: 7,
            rnr_retries: Self::FOREVER,
            max_mtu: None,
            hop_limit: 64,
            traffic_class: 0,
            service_level: 0,
        }
    }

    /// Refuses fields that are out of their bounds.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let fields = [
            ("the number of retries", self.retries, 7),
            ("the number of receiver-not-ready retries", self.rnr_retries, Self::FOREVER),
            ("the service level", self.service_level, 15),
        ];
        for (what, given, most) in fields {
            if given > most {
                let (given, most) = (given.into(), most.into());
                return Err(Error::OutOfRange { what, given, least: 0, most });
            }
        }
        Ok(())
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}
