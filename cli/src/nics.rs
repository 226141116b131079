//! Which NIC a name means: one of this machine, or the virtual one.

use crate::failure::Failure;
use doorbell::bnxt;
use doorbell::endpoint::Mtu;
use doorbell::mlx5::{self, Nic};
use doorbell_hal::linux::vfio_user::EmulatedFunction;
use doorbell_hal::linux::{Machine, VerbsFile};
use doorbell_model::connectx::Network;
use doorbell_model::fabric::{LocalFabric, Pcap, UdpFabric, WireCounters};
use doorbell_model::network::Shown;
use doorbell_model::rc;
use doorbell_model::{VirtualConnectx, VirtualNetxtreme};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

/// The name of the virtual ConnectX.
pub const VIRTUAL: &str = "virtual-connectx";

/// The name of the virtual BCM57608.
pub const VIRTUAL_NETXTREME: &str = "virtual-netxtreme";

/// What comes before the path of a socket at which another process emulates a BCM57608.
pub const VFIO_USER: &str = "vfio-user:";

/// Opens a BCM57608 that another process emulates, and serves at the socket `path`.
pub fn open_emulated(path: &Path) -> Result<bnxt::Nic<EmulatedFunction>, Failure> {
    let function = EmulatedFunction::connect(path).map_err(|reason| Failure::Address {
        address: path.display().to_string(),
        error: reason.into(),
    })?;
    Ok(bnxt::Nic::open(function)?)
}

/// Why a virtual NIC has no partner in another process.
pub fn in_one_process(device: &str) -> Failure {
    Failure::Usage(format!("{device} is in one process: no --listen, no --connect"))
}

/// Opens a virtual BCM57608, which runs in this process for as long as it is open.
pub fn open_virtual_netxtreme() -> Result<bnxt::Nic<VirtualNetxtreme>, Failure> {
    Ok(bnxt::Nic::open(VirtualNetxtreme::builder().open())?)
}

/// Opens a virtual ConnectX, which runs in this process for as long as it is open.
pub fn open_virtual() -> Result<Nic<VirtualConnectx>, Failure> {
    Ok(Nic::open(VirtualConnectx::builder().name(VIRTUAL).open())?)
}

/// A NIC that sends in UDP, what becomes of its packets, and what shows its counters to others.
pub type OnUdp = (Nic<VirtualConnectx>, Arc<WireCounters>, Option<Shown>);

/// Opens a virtual ConnectX whose port has `address`, and which sends RoCE v2 in UDP from there.
///
/// Where that is an address of the loopback, which programs of this machine share, it takes the
/// first one that no other has. Packets fit a network of 1500 bytes unless `mtu` says more, or the
/// network is the loopback. Its counters are shown to `doorbell devices --counters` for as long as the
/// last of what is answered is kept.
pub fn open_on_udp(
    address: IpAddr,
    mtu: Option<Mtu>,
    pcap: Option<&Path>,
) -> Result<OnUdp, Failure> {
    // Both kinds have the specification's numbers.
    let mtu = mtu.and_then(|mtu| rc::Mtu::from_verbs(mtu as u8));
    let mtu = mtu.unwrap_or(UdpFabric::usual_mtu(address));
    let (address, mut fabric) = if address.is_loopback() {
        free_loopback()
    } else {
        UdpFabric::bind(&[address]).map(|fabric| (address, fabric))
    }
    .map_err(|error| Failure::Address { address: "a virtual NIC".into(), error })?;
    if let Some(path) = pcap {
        let pcap = Pcap::create(path);
        fabric =
            fabric.capture(pcap.map_err(|error| Failure::Address {
                address: path.display().to_string(),
                error,
            })?);
    }
    let counters = fabric.counters();
    let network = Network::builder().fabric(fabric).build();
    // A NIC that cannot be looked into works all the same.
    let shown = network.show_counters(&format!("{VIRTUAL} at {address}"), Some(counters.clone()));
    let file = VirtualConnectx::builder()
        .name(VIRTUAL)
        .network(&network)
        .number(UdpFabric::number_of(address))
        .address(Some(address))
        .mtu(mtu)
        .open();
    Ok((Nic::open(file)?, counters, shown.ok()))
}

/// Opens a virtual BCM57608 that sends RoCE v2 in UDP from `address`. Its port's address is made of its
/// Ethernet address, so it can only be one of 10.0.0.0/8.
pub fn open_netxtreme_on_udp(address: IpAddr) -> Result<bnxt::Nic<VirtualNetxtreme>, Failure> {
    let Some(mac) = mac_of(address) else {
        let text = format!("a BCM57608 has an address of 10.0.0.0/8, and {address} is none");
        return Err(Failure::Usage(text));
    };
    let fabric = UdpFabric::bind(&[address])
        .map_err(|error| Failure::Address { address: address.to_string(), error })?;
    let network = Network::builder().fabric(fabric).build();
    Ok(bnxt::Nic::open(VirtualNetxtreme::builder().network(&network).mac(mac).open())?)
}

/// An Ethernet address of which a BCM57608 makes `address`.
fn mac_of(address: IpAddr) -> Option<[u8; 6]> {
    match address {
        IpAddr::V4(address) if address.octets()[0] == 10 => {
            let [_, x, y, z] = address.octets();
            Some([0x02, 0x0a, 0xf7, x, y, z])
        }
        _ => None,
    }
}

/// IPv6 has one address for all programs of a machine, so these are IPv4's.
fn free_loopback() -> io::Result<(IpAddr, UdpFabric)> {
    let mut taken = None;
    for last in 1..=254 {
        let address = Ipv4Addr::new(127, 0, 0, last).into();
        match UdpFabric::bind(&[address]) {
            Ok(fabric) => return Ok((address, fabric)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(taken.unwrap_or(io::ErrorKind::AddrInUse.into()))
}

/// Opens a virtual ConnectX that reaches those of `doorbell shim` with the same `fabric`.
pub fn open_on_local(fabric: &Path) -> Result<(Nic<VirtualConnectx>, Network), Failure> {
    let joined = LocalFabric::join(fabric);
    let joined = joined
        .map_err(|error| Failure::Address { address: fabric.display().to_string(), error })?;
    let number = joined.number();
    let network = Network::builder().fabric(joined).build();
    let file = VirtualConnectx::builder()
        .name(VIRTUAL)
        .number(number)
        .network(&network)
        .peers_are_processes()
        .open();
    Ok((Nic::open(file)?, network))
}

/// Opens a NIC of `machine`.
pub fn open_real(machine: &Machine, name: &str) -> Result<Nic<VerbsFile>, Failure> {
    Ok(mlx5::open(machine, name)?)
}
