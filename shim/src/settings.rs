//! The environment variables that choose what the device is.

use doorbell_model::kernel::LinkLayer;
use std::env;
use std::path::PathBuf;

/// What the device is.
pub struct Settings {
    /// The directory of the fabric (`DOORBELL_FABRIC`): processes with the same one reach each
    /// other. The user's own unless it is set.
    pub fabric: PathBuf,
    /// The port's link (`DOORBELL_LINK`): `ethernet`, or `infiniband`. Ethernet unless it is set.
    pub link: LinkLayer,
    /// Whether to say on standard error what the kernel was asked and answered (`DOORBELL_TRACE`).
    pub trace: bool,
}

impl Settings {
    /// What the environment says.
    pub fn from_environment() -> Settings {
        let fabric = match env::var_os("DOORBELL_FABRIC").filter(|path| !path.is_empty()) {
            Some(path) => path.into(),
            None => own_fabric(),
        };
        let link = match env::var("DOORBELL_LINK").as_deref() {
            Ok("infiniband") => LinkLayer::InfiniBand,
            _ => LinkLayer::Ethernet,
        };
        Settings { fabric, link, trace: env::var_os("DOORBELL_TRACE").is_some() }
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
