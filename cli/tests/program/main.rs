//! The program as a person runs it.

mod apart;
mod devices;
mod perf;
mod pingpong;
mod shim;
mod stranger;
mod usage;
mod vfio_user;

use std::process::{Command, Output};

/// What the program did.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs the program.
fn doorbell(arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_doorbell")).args(arguments).output();
    let Output { status, stdout, stderr } = output.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran { code: status.code(), out: text(stdout), err: text(stderr) }
}

impl Ran {
    /// What a run that went well printed.
    #[track_caller]
    fn well(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// What a run that went well printed, as JSON.
    #[track_caller]
    fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.well()).expect("JSON")
    }

    /// What a run that ended with `code` complained of.
    #[track_caller]
    fn error(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        self.err
    }
}
