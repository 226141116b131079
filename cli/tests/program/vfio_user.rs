//! A function that another process emulates: `doorbell model netxtreme`, and this driver at the other end
//! of its socket.

use crate::doorbell;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The process that emulates a function. It ends when its driver has hung up, or with this value.
struct Model(Child);

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Model {
    fn start(socket: &Path) -> Self {
        let model = Command::new(env!("CARGO_BIN_EXE_doorbell"))
            .args(["model", "netxtreme", "--socket"])
            .arg(socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let model = Model(model);
        // Only a test that fails waits so long.
        let patience = Instant::now() + Duration::from_secs(60);
        while !socket.exists() {
            assert!(Instant::now() < patience, "nobody listens at {}", socket.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        model
    }

    /// What it said, once it has ended by itself.
    fn end(mut self) -> String {
        let mut said = String::new();
        let mut err = self.0.stderr.take().expect("it is piped");
        std::io::Read::read_to_string(&mut err, &mut said).expect("text");
        assert!(self.0.wait().expect("it ends").success(), "{said}");
        said
    }
}

#[test]
fn every_operation_runs_on_a_bcm57608_that_another_process_emulates() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("netxtreme");
    let model = Model::start(&socket);
    let device = format!("vfio-user:{}", socket.display());
    let run = doorbell(&[
        "pingpong",
        "--device",
        &device,
        "--op",
        "all",
        "--sizes",
        "8,5000",
        "--iterations",
        "20",
        "--json",
    ]);
    let report = run.json();
    assert!(report.to_string().contains("fetch-add"), "{report}");
    let said = model.end();
    // It has seen nothing that it did not like, and only says goodbye.
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("hung up"), "{said}");
}

#[test]
fn a_socket_that_nobody_listens_at_is_named() {
    let error = doorbell(&["pingpong", "--device", "vfio-user:/nowhere/netxtreme"]).error(1);
    assert!(error.contains("/nowhere/netxtreme"), "{error}");
}
