//! Names of NICs, and why one cannot be opened, on machines that are made up.

use doorbell::error::Error;
use doorbell::mlx5;
use doorbell_hal::linux::Machine;
use std::error::Error as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A machine that is made up, and gone when dropped.
struct MadeUp(tempfile::TempDir);

impl MadeUp {
    fn new() -> Self {
        MadeUp(tempfile::tempdir().unwrap())
    }

    fn machine(&self) -> Machine {
        Machine::under(self.0.path())
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.0.path().join(relative)
    }

    /// Adds an RDMA device whose function `driver` holds.
    fn device(&self, name: &str, driver: &str) -> &Self {
        let function = self.path("sys/class/infiniband").join(name).join("device");
        fs::create_dir_all(&function).unwrap();
        symlink(Path::new("../../../../bus/pci/drivers").join(driver), function.join("driver"))
            .unwrap();
        self
    }

    /// Says that the verbs file `verbs` belongs to `device`; the file itself is not there.
    fn verbs(&self, verbs: &str, device: &str) -> &Self {
        let class = self.path("sys/class/infiniband_verbs").join(verbs);
        fs::create_dir_all(&class).unwrap();
        fs::write(class.join("ibdev"), format!("{device}\n")).unwrap();
        fs::create_dir_all(self.path("dev/infiniband")).unwrap();
        self
    }
}

fn refusal(machine: &MadeUp, name: &str) -> Error {
    mlx5::open(&machine.machine(), name).unwrap_err()
}

#[test]
fn names_are_those_that_mlx5_core_holds_sorted_as_strings() {
    let made_up = MadeUp::new();
    made_up
        .device("mlx5_2", "mlx5_core")
        .device("bnxt_re0", "bnxt_en")
        .device("mlx5_10", "mlx5_core")
        .device("rocep1s0", "mlx5_core");
    assert_eq!(mlx5::names(&made_up.machine()).unwrap(), ["mlx5_10", "mlx5_2", "rocep1s0"]);
}

#[test]
fn a_machine_without_rdma_devices_has_no_names_and_that_is_no_error() {
    let made_up = MadeUp::new();
    assert!(mlx5::names(&made_up.machine()).unwrap().is_empty());
    let nowhere = Machine::under("/nonexistent/for/sure");
    assert!(mlx5::names(&nowhere).unwrap().is_empty());
}

#[test]
fn a_class_directory_that_cannot_be_read_is_an_error_that_names_it_and_the_reason() {
    let made_up = MadeUp::new();
    fs::create_dir_all(made_up.path("sys/class")).unwrap();
    fs::write(made_up.path("sys/class/infiniband"), "no directory").unwrap();
    let error = mlx5::names(&made_up.machine()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(made_up.path("sys/class/infiniband").to_str().unwrap()), "{text}");
    assert!(text.contains("Not a directory"), "{text}");
    assert!(error.source().is_some());
}

#[test]
fn listing_names_changes_nothing_on_the_machine() {
    let made_up = MadeUp::new();
    made_up.device("mlx5_0", "mlx5_core").verbs("uverbs0", "mlx5_0");
    fn all(under: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(under).unwrap() {
            let path = entry.unwrap().path();
            into.push(path.clone());
            if path.is_dir() && !path.is_symlink() {
                all(&path, into);
            }
        }
    }
    let files = || {
        let mut files = Vec::new();
        all(made_up.0.path(), &mut files);
        files.sort();
        files
    };
    let before = files();
    mlx5::names(&made_up.machine()).unwrap();
    assert_eq!(files(), before);
}

#[test]
fn opening_a_name_that_does_not_exist_says_so() {
    let made_up = MadeUp::new();
    made_up.device("mlx5_0", "mlx5_core").verbs("uverbs0", "mlx5_0");
    for name in ["mlx5_1", "", "..", "../infiniband/mlx5_0", "mlx5_0/", "mlx5_0\0"] {
        let error = refusal(&made_up, name);
        assert!(matches!(&error, Error::NoDevice { device } if device == name), "{error}");
        assert!(error.to_string().contains("no RDMA device"), "{error}");
    }
}

#[test]
fn opening_a_device_of_another_driver_names_both_drivers() {
    let made_up = MadeUp::new();
    made_up.device("bnxt_re0", "bnxt_en").verbs("uverbs0", "bnxt_re0");
    let text = refusal(&made_up, "bnxt_re0").to_string();
    assert_eq!(text, "RDMA device bnxt_re0 is held by bnxt_en, not by mlx5_core");
    fs::create_dir_all(made_up.path("sys/class/infiniband/rxe0")).unwrap();
    let text = refusal(&made_up, "rxe0").to_string();
    assert_eq!(text, "RDMA device rxe0 is not held by mlx5_core");
}

#[test]
fn opening_a_device_without_a_verbs_file_says_where_it_was_looked_for() {
    let made_up = MadeUp::new();
    made_up.device("mlx5_0", "mlx5_core").verbs("uverbs0", "mlx5_1");
    let text = refusal(&made_up, "mlx5_0").to_string();
    assert!(text.contains("sys/class/infiniband_verbs"), "{text}");
    assert!(text.contains("no verbs file belongs to RDMA device mlx5_0"), "{text}");
}

#[test]
fn a_verbs_file_that_cannot_be_opened_is_named_with_the_reason() {
    let made_up = MadeUp::new();
    made_up.device("mlx5_0", "mlx5_core").verbs("uverbs3", "mlx5_0");
    let text = refusal(&made_up, "mlx5_0").to_string();
    assert!(text.contains("dev/infiniband/uverbs3"), "{text}");
    assert!(text.contains("No such file"), "{text}");
}

#[test]
fn a_file_that_is_no_verbs_file_is_refused_by_name_of_the_first_call() {
    let made_up = MadeUp::new();
    made_up.device("mlx5_0", "mlx5_core").verbs("uverbs0", "mlx5_0");
    fs::write(made_up.path("dev/infiniband/uverbs0"), "").unwrap();
    let text = refusal(&made_up, "mlx5_0").to_string();
    assert_eq!(text, "mlx5_0: the kernel refused GET_CONTEXT: not a verbs file (ENOTTY)");
}

#[test]
fn this_machine_is_listed_without_an_error() {
    // Whatever it has. Where a test runs, there may be none, some, or a NIC for the tests.
    let names = mlx5::names(&Machine::this()).unwrap();
    assert!(names.is_sorted());
    if let Ok(named) = std::env::var("DOORBELL_DEVICE") {
        for name in named.split(',').filter(|name| !name.is_empty()) {
            assert!(names.iter().any(|known| known == name), "{name} is not among {names:?}");
            assert_eq!(mlx5::open(&Machine::this(), name).unwrap().name(), name);
        }
    }
}
