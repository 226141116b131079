//! A machine, and the files that say which RDMA devices it has.

use super::VerbsFile;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A machine, seen through its `/sys` and `/dev`.
///
/// [`Machine::this`] is the one that this process runs on. Tests make one up under a directory.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

/// A file or directory that could not be used: its path, what was tried, and the reason.
#[derive(Debug)]
pub struct FileError {
    /// What was tried, such as `open`.
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// Why it failed.
    pub reason: io::Error,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.action, self.path.display(), self.reason)
    }
}

impl core::error::Error for FileError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.reason)
    }
}

impl Machine {
    /// The machine that this process runs on.
    pub fn this() -> Self {
        Machine { root: PathBuf::from("/") }
    }

    /// A machine whose `sys` and `dev` directories lie under `root`.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Machine { root: root.into() }
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// The names of the RDMA devices whose PCI function the kernel driver `driver` holds, sorted as
    /// strings (so `mlx5_10` comes before `mlx5_2`). Empty where the machine has no
    /// `/sys/class/infiniband`. Changes nothing on the machine.
    pub fn rdma_devices(&self, driver: &str) -> Result<Vec<String>, FileError> {
        let mut names = Vec::new();
        for name in list(&self.path("sys/class/infiniband"))? {
            if self.driver_of(&name)?.as_deref() == Some(driver) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The kernel driver that holds the function of RDMA device `name`, or `None` where the device
    /// does not exist or has no driver.
    pub fn driver_of(&self, name: &str) -> Result<Option<String>, FileError> {
        let link = self.path("sys/class/infiniband").join(name).join("device/driver");
        match fs::read_link(&link) {
            Ok(target) => Ok(target.file_name().map(|driver| driver.to_string_lossy().into())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(reason) => Err(FileError { action: "read the link", path: link, reason }),
        }
    }

    /// Whether the machine has an RDMA device `name`.
    pub fn has_rdma_device(&self, name: &str) -> bool {
        is_plain_name(name) && self.path("sys/class/infiniband").join(name).exists()
    }

    /// The counters of the first port of RDMA device `name`, by name: the port's, and the NIC's own
    /// (`counters` and `hw_counters` of its directory in sysfs). What is no number, or cannot be read,
    /// is left out.
    pub fn rdma_counters(&self, name: &str) -> Result<Vec<(String, u64)>, FileError> {
        let mut counters = Vec::new();
        let port = self.path("sys/class/infiniband").join(name).join("ports/1");
        for directory in ["counters", "hw_counters"].map(|directory| port.join(directory)) {
            for counter in list(&directory)? {
                let value = fs::read_to_string(directory.join(&counter));
                if let Some(value) = value.ok().and_then(|value| value.trim().parse().ok()) {
                    counters.push((counter, value));
                }
            }
        }
        counters.sort();
        Ok(counters)
    }

    /// The path of the verbs file of RDMA device `name`, or `None` where it has none.
    pub fn verbs_path(&self, name: &str) -> Result<Option<PathBuf>, FileError> {
        let class = self.path("sys/class/infiniband_verbs");
        for entry in list(&class)? {
            let owner = class.join(&entry).join("ibdev");
            match fs::read_to_string(&owner) {
                Ok(owner) if owner.trim_end() == name => {
                    return Ok(Some(self.path("dev/infiniband").join(entry)));
                }
                Ok(_) => {}
                // The class also holds files that are no devices, such as `abi_version`.
                Err(error) if is_absent(&error) => {}
                Err(reason) => return Err(FileError { action: "read", path: owner, reason }),
            }
        }
        Ok(None)
    }

    /// Opens the verbs file of RDMA device `name`: read and write access to
    /// `/dev/infiniband/uverbsN`, and no other privilege.
    pub fn open_verbs(&self, name: &str) -> Result<VerbsFile, FileError> {
        let Some(path) = self.verbs_path(name)? else {
            let reason = io::Error::new(
                io::ErrorKind::NotFound,
                alloc::format!("no verbs file belongs to RDMA device {name}"),
            );
            let path = self.path("sys/class/infiniband_verbs");
            return Err(FileError { action: "find a verbs file in", path, reason });
        };
        VerbsFile::open(name, &path).map_err(|reason| FileError { action: "open", path, reason })
    }
}

/// A device name that cannot lead out of its directory.
fn is_plain_name(name: &str) -> bool {
    let path = Path::new(name);
    path.file_name() == Some(OsStr::new(name)) && path.components().count() == 1
}

pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The names in a directory; none where it does not exist.
pub(super) fn list(directory: &Path) -> Result<Vec<String>, FileError> {
    let failed = |reason| FileError { action: "list", path: directory.to_path_buf(), reason };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(reason) => return Err(failed(reason)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().to_string());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A made-up machine, gone when dropped.
    struct MadeUp(tempfile::TempDir);

    impl MadeUp {
        fn new() -> Self {
            MadeUp(tempfile::tempdir().unwrap())
        }

        fn machine(&self) -> Machine {
            Machine::under(self.0.path())
        }

        fn device(&self, name: &str, driver: Option<&str>, verbs: Option<&str>) -> &Self {
            let function = self.0.path().join("sys/class/infiniband").join(name).join("device");
            fs::create_dir_all(&function).unwrap();
            if let Some(driver) = driver {
                let target = Path::new("../../../bus/pci/drivers").join(driver);
                symlink(target, function.join("driver")).unwrap();
            }
            if let Some(verbs) = verbs {
                let class = self.0.path().join("sys/class/infiniband_verbs").join(verbs);
                fs::create_dir_all(&class).unwrap();
                fs::write(class.join("ibdev"), alloc::format!("{name}\n")).unwrap();
            }
            self
        }
    }

    #[test]
    fn devices_are_those_that_the_driver_holds_sorted_as_strings() {
        let made_up = MadeUp::new();
        made_up
            .device("mlx5_2", Some("mlx5_core"), None)
            .device("mlx5_10", Some("mlx5_core"), None)
            .device("bnxt_re0", Some("bnxt_en"), None)
            .device("rxe0", None, None)
            .device("mlx5_0", Some("mlx5_core"), None);
        let names = made_up.machine().rdma_devices("mlx5_core").unwrap();
        assert_eq!(names, ["mlx5_0", "mlx5_10", "mlx5_2"]);
    }

    #[test]
    fn a_machine_without_rdma_has_no_devices() {
        assert!(MadeUp::new().machine().rdma_devices("mlx5_core").unwrap().is_empty());
    }

    #[test]
    fn an_unreadable_device_directory_is_named_with_the_reason() {
        let made_up = MadeUp::new();
        fs::create_dir_all(made_up.0.path().join("sys/class")).unwrap();
        fs::write(made_up.0.path().join("sys/class/infiniband"), "a file").unwrap();
        let error = made_up.machine().rdma_devices("mlx5_core").unwrap_err().to_string();
        assert!(error.contains("cannot list"), "{error}");
        assert!(error.contains("sys/class/infiniband: Not a directory"), "{error}");
    }

    #[test]
    fn a_verbs_file_is_found_by_the_device_it_belongs_to() {
        let made_up = MadeUp::new();
        made_up.device("mlx5_0", Some("mlx5_core"), Some("uverbs1")).device(
            "mlx5_1",
            Some("mlx5_core"),
            Some("uverbs0"),
        );
        // The class holds plain files, too.
        fs::write(made_up.0.path().join("sys/class/infiniband_verbs/abi_version"), "6\n").unwrap();
        let path = made_up.machine().verbs_path("mlx5_0").unwrap().unwrap();
        assert_eq!(path, made_up.0.path().join("dev/infiniband/uverbs1"));
        assert_eq!(made_up.machine().verbs_path("mlx5_2").unwrap(), None);
    }

    #[test]
    fn opening_a_device_names_the_file_and_the_reason() {
        let made_up = MadeUp::new();
        made_up.device("mlx5_0", Some("mlx5_core"), Some("uverbs0")).device(
            "mlx5_1",
            Some("mlx5_core"),
            None,
        );
        let error = made_up.machine().open_verbs("mlx5_0").unwrap_err().to_string();
        assert!(error.contains("dev/infiniband/uverbs0: No such file"), "{error}");
        let error = made_up.machine().open_verbs("mlx5_1").unwrap_err().to_string();
        assert!(error.contains("no verbs file belongs to RDMA device mlx5_1"), "{error}");
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_device_directory() {
        let made_up = MadeUp::new();
        made_up.device("mlx5_0", Some("mlx5_core"), None);
        let machine = made_up.machine();
        assert!(machine.has_rdma_device("mlx5_0"));
        for name in ["", ".", "..", "../infiniband/mlx5_0", "/etc", "mlx5_0/device", "mlx5_1"] {
            assert!(!machine.has_rdma_device(name), "{name:?}");
        }
    }
}
