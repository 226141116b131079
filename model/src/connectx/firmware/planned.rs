//! Failures that a test asks for.

use super::Firmware;
use super::opcode::Opcode;
use super::status::{Done, Refusal, Status};
use std::collections::BTreeMap;

/// What commands a test waits for.
#[derive(Default)]
pub(super) struct Planned {
    /// The command to refuse, and how many of them are executed before that.
    refusal: Option<(Opcode, u64)>,
    /// How often each command was given.
    given: BTreeMap<&'static str, u64>,
}

impl Planned {
    /// Takes notice of a command. Refuses it if a test wanted that.
    pub(super) fn meet(&mut self, opcode: Opcode) -> Done {
        *self.given.entry(opcode.name()).or_default() += 1;
        match &mut self.refusal {
            Some((wanted, 0)) if *wanted == opcode => {
                self.refusal = None;
                Err(Refusal::new(Status::Limit, "a test wants that"))
            }
            Some((wanted, before)) if *wanted == opcode => {
                *before -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Firmware {
    /// Has one command refused: the one after `before` others of that name, from now on. The names are
    /// those of the C header (`MLX5_CMD_OP_*`), without the prefix. A later plan takes the place of
    /// an earlier one. Answers whether there is a command of that name.
    pub fn plan_refusal(&mut self, name: &str, before: u64) -> bool {
        let opcode = Opcode::from_name(name);
        self.planned.refusal = opcode.map(|opcode| (opcode, before));
        opcode.is_some()
    }

    /// Whether a refusal is planned that has not come yet.
    pub fn is_refusal_planned(&self) -> bool {
        self.planned.refusal.is_some()
    }

    /// How often each command was given since this was asked last, by its name.
    pub fn take_given(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.planned.given)
    }
}
