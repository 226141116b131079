//! What can be asked of a virtual NIC while a machine runs: the port, failures, and what there is.

use doorbell_model::pci::Function;
use std::str::FromStr;

/// What a line of standard input asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The port's link comes up, or goes down.
    Link { up: bool },
    /// The firmware fails.
    Fatal,
    /// The firmware refuses a command: the `nth` of that name, from now on, counted from 1.
    Refuse { command: String, nth: u64 },
    /// Whether a refusal was asked for and has not come yet.
    Pending,
    /// How often each command was given since this was asked last.
    Given,
    /// Keep the entries that are fetched from now on.
    Record,
    /// The entries that were fetched since this was asked last.
    Recorded,
    /// How many objects of each kind there are.
    Objects,
    /// What the NIC has seen and done.
    Counters,
}

/// The lines, for people.
const HELP: &str = "link up | link down | fatal | refuse COMMAND NTH | pending | given | record | recorded | objects | \
     counters";

impl FromStr for Request {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["link", "up"] => Ok(Request::Link { up: true }),
            ["link", "down"] => Ok(Request::Link { up: false }),
            ["fatal"] => Ok(Request::Fatal),
            ["refuse", command, nth] => match nth.parse() {
                Ok(0) | Err(_) => Err(format!("{nth} is no number of a command, from 1 on")),
                Ok(nth) => Ok(Request::Refuse { command: command.to_owned(), nth }),
            },
            ["pending"] => Ok(Request::Pending),
            ["given"] => Ok(Request::Given),
            ["record"] => Ok(Request::Record),
            ["recorded"] => Ok(Request::Recorded),
            ["objects"] => Ok(Request::Objects),
            ["counters"] => Ok(Request::Counters),
            ["help"] => Err(HELP.to_owned()),
            _ => Err(format!("\"{line}\" is none of: {HELP}")),
        }
    }
}

impl Request {
    /// Does what is asked for, and answers with a line.
    pub fn answer(&self, function: &mut dyn Function) -> String {
        match self {
            Request::Link { up } => function.set_link(*up),
            Request::Fatal => function.fail(),
            Request::Refuse { command, nth } => {
                if !function.plan_refusal(command, nth - 1) {
                    return format!("the firmware has no command {command}");
                }
            }
            Request::Pending => {
                let is_planned = function.is_refusal_planned();
                return if is_planned { "yes" } else { "no" }.to_owned();
            }
            Request::Given => {
                let given = function.take_given();
                let given = given.iter().map(|(command, times)| format!("{command}={times}"));
                return given.collect::<Vec<_>>().join(" ");
            }
            Request::Record => {
                if !function.record() {
                    return "this NIC does not record what it fetches".to_owned();
                }
            }
            Request::Recorded => {
                let taken = function.take_recorded();
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let lines = taken.iter().map(|(ring, bytes)| -> String {
                    let bytes: String = hex(bytes);
                    format!("{ring}={bytes}")
                });
                return lines.collect::<Vec<_>>().join(" ");
            }
            Request::Objects => return function.objects(),
            Request::Counters => return function.summary(),
        }
        "ok".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_model::connectx::Network;
    use doorbell_model::kernel::LinkLayer;
    use doorbell_model::pci::{ConnectxFunction, Identity};

    fn ask(function: &mut ConnectxFunction, line: &str) -> String {
        line.parse::<Request>().unwrap().answer(function)
    }

    #[test]
    fn what_is_no_request_is_answered_with_those_that_there_are() {
        for line in ["", "link", "link sideways", "refuse", "refuse CREATE_QP", "fatal now"] {
            let why = line.parse::<Request>().unwrap_err();
            assert!(why.contains("refuse COMMAND NTH"), "{why}");
        }
        for line in ["refuse CREATE_QP 0", "refuse CREATE_QP -1", "refuse CREATE_QP x"] {
            assert!(line.parse::<Request>().unwrap_err().contains("from 1 on"));
        }
    }

    #[test]
    fn a_refusal_is_pending_until_the_command_comes() {
        let identity = Identity::new(LinkLayer::Ethernet, 1);
        let mut function = ConnectxFunction::new(&Network::stepped(1), identity);
        assert_eq!(ask(&mut function, "pending"), "no");
        assert_eq!(ask(&mut function, "refuse CREATE_QP 2"), "ok");
        assert_eq!(ask(&mut function, "pending"), "yes");
        let why = ask(&mut function, "refuse MAKE_COFFEE 1");
        assert_eq!(why, "the firmware has no command MAKE_COFFEE");
        assert_eq!(ask(&mut function, "objects"), "pd=0 mkey=0 cq=0 qp=0 uar=0");
    }
}
