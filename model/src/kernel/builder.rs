//! How a virtual NIC is described.

use super::VirtualConnectx;
use super::device::{Device, Settings};
use super::port::{self, Gid, GidKind, LinkLayer, Port};
use crate::connectx::{Capabilities, Network};
use crate::rc::Mtu;
use std::net::IpAddr;
use std::sync::Arc;

/// A virtual NIC that is not there yet. What is not said is chosen: an active Ethernet port with
/// an address of its own, on a network of its own whose NICs run by themselves.
pub struct Builder {
    name: String,
    network: Option<Network>,
    number: Option<u16>,
    capabilities: Capabilities,
    link_layer: LinkLayer,
    up: bool,
    mtu: Option<Mtu>,
    address: Option<Option<IpAddr>>,
    gids: Option<Vec<Option<Gid>>>,
    lid: Option<u16>,
    locked_limit: Option<u64>,
    remote_invalidate: bool,
    least_timeout: u8,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            name: "virtual-connectx".into(),
            network: None,
            number: None,
            capabilities: Capabilities::default(),
            link_layer: LinkLayer::Ethernet,
            up: true,
            mtu: None,
            address: None,
            gids: None,
            lid: None,
            locked_limit: None,
            remote_invalidate: false,
            least_timeout: 0,
        }
    }
}

impl Builder {
    /// The name of the RDMA device.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// The network that the NIC is on.
    pub fn network(mut self, network: &Network) -> Self {
        self.network = Some(network.clone());
        self
    }

    /// What the NIC's addresses (MAC, GUID, LID, IPv4) are made of, for a fabric that NICs of other
    /// networks are on, too. Its place in its network unless it is said.
    pub fn number(mut self, number: u16) -> Self {
        self.number = Some(number);
        self
    }

    /// The NIC's bounds.
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// An Ethernet port (the default), or an InfiniBand one.
    pub fn link_layer(mut self, link_layer: LinkLayer) -> Self {
        self.link_layer = link_layer;
        self
    }

    /// A port that is down at first.
    pub fn down(mut self) -> Self {
        self.up = false;
        self
    }

    /// The port's active MTU; the most it can unless it is said.
    pub fn mtu(mut self, mtu: Mtu) -> Self {
        self.mtu = Some(mtu);
        self
    }

    /// The Internet address of an Ethernet port, or none.
    pub fn address(mut self, address: Option<IpAddr>) -> Self {
        self.address = Some(address);
        self
    }

    /// The whole table of global identifiers, by index.
    pub fn gids(mut self, gids: Vec<Option<Gid>>) -> Self {
        self.gids = Some(gids);
        self
    }

    /// The local identifier of an InfiniBand port.
    pub fn lid(mut self, lid: u16) -> Self {
        self.lid = Some(lid);
        self
    }

    /// The most bytes that may be pinned at once, as `RLIMIT_MEMLOCK` bounds them.
    pub fn locked_memory(mut self, bytes: u64) -> Self {
        self.locked_limit = Some(bytes);
        self
    }

    /// Lets peers invalidate plain regions. `mlx5_ib` allows that of memory windows only, which this
    /// kernel does not make; without this, every send with invalidate is refused.
    pub fn remote_invalidate(mut self) -> Self {
        self.remote_invalidate = true;
        self
    }

    /// The shortest acknowledgement timeout, as the code of 4.096 us times 2 to the power of it, up to
    /// 31: a queue pair that asks for a shorter one waits so long all the same. For peers that are
    /// ordinary processes, which may not run for a while.
    pub fn least_timeout(mut self, code: u8) -> Self {
        self.least_timeout = code.min(31);
        self
    }

    /// The peers are processes of ordinary machines: no acknowledgement timeout is shorter than 1.07 s.
    /// Programs ask for 67 ms, which is long on a network of NICs; but a machine of CI may not run the
    /// peer's process for so long.
    pub fn peers_are_processes(self) -> Self {
        self.least_timeout(18)
    }

    /// Makes the NIC and opens it.
    pub fn open(self) -> VirtualConnectx {
        let network = self.network.unwrap_or_else(Network::free);
        // NICs are told apart by their place in the network, so that a seed gives the same run.
        let place = || (network.nics() as u16).wrapping_add(1);
        let number = self.number.unwrap_or_else(place);
        let [high, low] = number.to_be_bytes();
        let mac = [0x02, 0, 0, 0, high, low];
        let guid = 0x0200_00ff_fe00_0000 | u64::from(number);
        let address = self.address.unwrap_or(Some([10, 9, high, low].into()));
        let gids = self.gids.unwrap_or_else(|| match self.link_layer {
            LinkLayer::Ethernet => port::roce_table(mac, address),
            LinkLayer::InfiniBand => {
                let mut raw = [0; 16];
                raw[..8].copy_from_slice(&0xfe80_0000_0000_0000u64.to_be_bytes());
                raw[8..].copy_from_slice(&guid.to_be_bytes());
                vec![Some(Gid { raw, kind: GidKind::InfiniBand })]
            }
        });
        let port = Port {
            link_layer: self.link_layer,
            up: self.up,
            lid: match self.link_layer {
                LinkLayer::Ethernet => 0,
                LinkLayer::InfiniBand => self.lid.unwrap_or(number),
            },
            active_mtu: self.mtu.unwrap_or(self.capabilities.max_mtu),
            gids,
        };
        let settings = Settings {
            guid,
            locked_limit: self.locked_limit,
            remote_invalidate: self.remote_invalidate,
            least_timeout: self.least_timeout,
        };
        let device = Device::new(self.name, network, self.capabilities, port, settings);
        VirtualConnectx::open(Arc::new(device))
    }
}
