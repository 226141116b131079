//! The directory that describes the device: what `/sys/class/infiniband` and
//! `/sys/class/infiniband_verbs` hold on a machine with a ConnectX
//! (`Documentation/ABI/stable/sysfs-class-infiniband`).

use doorbell_model::kernel::{Control, Gid, GidKind, LinkLayer};
use std::fs;
use std::io;
use std::net::Ipv6Addr;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The RDMA device's name.
pub const DEVICE: &str = "mlx5_0";
/// The verbs file's name.
pub const VERBS: &str = "uverbs0";
/// Where the device's PCI function lies.
const FUNCTION: &str = "devices/pci0000:00/0000:01:00.0";

/// Describes the device in `root`, whose `class` and `devices` are made. `verbs` is the device number
/// of the verbs file, major and minor.
pub fn describe(
    root: &Path,
    control: &Control,
    link: LinkLayer,
    verbs: (u32, u32),
) -> io::Result<()> {
    function(&root.join(FUNCTION), link)?;
    let class = root.join("class/infiniband_verbs");
    let file = class.join(VERBS);
    let (major, minor) = verbs;
    write_all(&class, &[("abi_version", "6")])?;
    write_all(
        &file,
        &[("ibdev", DEVICE), ("abi_version", "1"), ("dev", &format!("{major}:{minor}"))],
    )?;
    link_to(&format!("../../../{FUNCTION}"), &file.join("device"))?;

    let device = root.join("class/infiniband").join(DEVICE);
    let guid = quads(u128::from(control.guid()), 4);
    write_all(
        &device,
        &[
            ("node_type", "1: CA"),
            ("node_guid", &guid),
            ("sys_image_guid", &guid),
            ("fw_ver", "16.31.1006"),
            ("hca_type", "MT4119"),
            ("hw_rev", "0"),
            ("board_id", "MT_0000000000"),
            ("node_desc", "virtual ConnectX"),
        ],
    )?;
    link_to(&format!("../../../{FUNCTION}"), &device.join("device"))?;
    port(&device.join("ports/1"), control, link)
}

/// The PCI function, by which libraries know their device.
fn function(at: &Path, link: LinkLayer) -> io::Result<()> {
    let class = match link {
        LinkLayer::Ethernet => "0x020000",
        LinkLayer::InfiniBand => "0x020700",
    };
    let digits = class.trim_start_matches("0x");
    let (base, sub) = (&digits[..2], &digits[2..4]);
    let alias = format!("pci:v000015B3d00001017sv000015B3sd00000007bc{base}sc{sub}i00");
    write_all(
        at,
        &[
            ("vendor", "0x15b3"),
            ("device", "0x1017"),
            ("subsystem_vendor", "0x15b3"),
            ("subsystem_device", "0x0007"),
            ("class", class),
            ("modalias", &alias),
            ("numa_node", "-1"),
            ("local_cpus", "ffffffff"),
        ],
    )?;
    link_to("../../../bus/pci/drivers/mlx5_core", &at.join("driver"))
}

fn port(at: &Path, control: &Control, link: LinkLayer) -> io::Result<()> {
    let lid = format!("{:#x}", control.lid());
    let (layer, capabilities) = match link {
        LinkLayer::Ethernet => ("Ethernet", "0x04010000"),
        LinkLayer::InfiniBand => ("InfiniBand", "0x02014848"),
    };
    let subnet_manager = if link == LinkLayer::InfiniBand { "0x1" } else { "0x0" };
    write_all(
        at,
        &[
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", "100 Gb/sec (4X EDR)"),
            ("lid", &lid),
            ("lid_mask_count", "0"),
            ("sm_lid", subnet_manager),
            ("sm_sl", "0"),
            ("cap_mask", capabilities),
            ("link_layer", layer),
        ],
    )?;
    write_all(&at.join("pkeys"), &[("0", "0xffff")])?;
    let mut gids = control.gids();
    let size = match link {
        LinkLayer::Ethernet => 32,
        LinkLayer::InfiniBand => 8,
    };
    gids.resize(size, None);
    for (index, gid) in gids.iter().enumerate() {
        let raw = gid.map_or([0; 16], |gid| gid.raw);
        let index = index.to_string();
        write_all(&at.join("gids"), &[(&index, &quads(u128::from_be_bytes(raw), 8))])?;
        // Of an empty entry the kernel says neither.
        if let Some(Gid { kind, .. }) = gid {
            let kind = match kind {
                GidKind::InfiniBand | GidKind::RoceV1 => "IB/RoCE v1",
                GidKind::RoceV2 => "RoCE v2",
            };
            write_all(&at.join("gid_attrs/types"), &[(&index, kind)])?;
            if link == LinkLayer::Ethernet {
                write_all(&at.join("gid_attrs/ndevs"), &[(&index, "eth0")])?;
            }
        }
    }
    Ok(())
}

/// Writes files into `directory`, each with a line end.
fn write_all(directory: &Path, files: &[(&str, &str)]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for (name, text) in files {
        fs::write(directory.join(name), format!("{text}\n"))?;
    }
    Ok(())
}

fn link_to(target: &str, at: &Path) -> io::Result<()> {
    symlink(target, at)
}

/// `count` groups of four hexadecimal digits, the way identifiers are written in full.
fn quads(number: u128, count: usize) -> String {
    let segments = Ipv6Addr::from(number).segments();
    let last = segments.get(segments.len() - count..).unwrap_or_default();
    last.iter().map(|quad| format!("{quad:04x}")).collect::<Vec<_>>().join(":")
}
