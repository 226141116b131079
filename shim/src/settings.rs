//! The environment variables that choose what the device is.

use doorbell_model::fabric::UdpFabric;
use doorbell_model::kernel::LinkLayer;
use doorbell_model::rc::Mtu;
use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;

/// What the device is.
pub struct Settings {
    /// What joins the device to others (`DOORBELL_FABRIC`).
    pub fabric: FabricChoice,
    /// The port's link (`DOORBELL_LINK`): `ethernet`, or `infiniband`. Ethernet unless it is set.
    pub link: LinkLayer,
    /// The NIC does nothing until the program calls `doorbell_shim_run_until_idle`, and this number
    /// chooses what it does first (`DOORBELL_STEPPED`).
    pub stepped: Option<u64>,
    /// Whether to say on standard error what the kernel was asked and answered (`DOORBELL_TRACE`).
    pub trace: bool,
}

/// What joins the device to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricChoice {
    /// A directory: processes with the same one reach each other. The user's own unless one is set.
    Directory(PathBuf),
    /// `udp:ADDRESS`, or `udp:ADDRESS,MTU`: the IP network, from this address of the machine, with at
    /// most MTU bytes in a packet. What fits Ethernet's 1500 bytes unless it is said, or the address
    /// is of the loopback.
    Udp(IpAddr, Mtu),
}

impl FabricChoice {
    fn of(value: OsString) -> Result<FabricChoice, String> {
        let wrong = |why: &dyn Display| format!("DOORBELL_FABRIC is {value:?}: {why}");
        let Some(text) = value.to_str().and_then(|text| text.strip_prefix("udp:")) else {
            return Ok(FabricChoice::Directory(value.into()));
        };
        let (address, mtu) = match text.split_once(',') {
            Some((address, mtu)) => (address, Some(mtu)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|error| wrong(&error))?;
        let mtu = match mtu {
            None => UdpFabric::usual_mtu(address),
            Some(mtu) => {
                let known = Mtu::ALL.into_iter().find(|known| known.bytes().to_string() == mtu);
                known.ok_or_else(|| wrong(&"the MTU is 256, 512, 1024, 2048 or 4096"))?
            }
        };
        Ok(FabricChoice::Udp(address, mtu))
    }
}

impl Settings {
    /// What the environment says.
    pub fn from_environment() -> Result<Settings, String> {
        let fabric = match env::var_os("DOORBELL_FABRIC").filter(|path| !path.is_empty()) {
            Some(value) => FabricChoice::of(value)?,
            None => FabricChoice::Directory(own_fabric()),
        };
        let link = match env::var("DOORBELL_LINK").as_deref() {
            Ok("infiniband") => LinkLayer::InfiniBand,
            _ => LinkLayer::Ethernet,
        };
        let stepped = env::var("DOORBELL_STEPPED").ok().and_then(|seed| seed.parse().ok());
        Ok(Settings { fabric, link, stepped, trace: env::var_os("DOORBELL_TRACE").is_some() })
    }
}

/// The directory of the fabric that all processes of a user share.
fn own_fabric() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    match env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("doorbell-fabric"),
        None => env::temp_dir().join(format!("doorbell-fabric-{user}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fabric_is_a_directory_or_an_address_of_the_machine() {
        let of = |value: &str| FabricChoice::of(value.into());
        assert_eq!(of("/run/x"), Ok(FabricChoice::Directory("/run/x".into())));
        let ip = IpAddr::from([10, 1, 2, 3]);
        assert_eq!(of("udp:10.1.2.3"), Ok(FabricChoice::Udp(ip, Mtu::B1024)));
        assert_eq!(of("udp:10.1.2.3,4096"), Ok(FabricChoice::Udp(ip, Mtu::B4096)));
        assert!(of("udp:10.1.2.3,1500").unwrap_err().contains("256, 512, 1024"));
        let error = of("udp:here").unwrap_err();
        assert!(error.contains("udp:here") && error.contains("invalid IPv4"), "{error}");
    }
}
