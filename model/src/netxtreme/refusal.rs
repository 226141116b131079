//! Refusals that somebody plans, of requests of either firmware channel, by their names.

use super::nic::Netxtreme;
use doorbell::bnxt::abi::firmware::RequestType;
use doorbell::bnxt::abi::opcode::Opcode;
use std::collections::BTreeMap;

/// What the names of C headers begin with.
const REQUEST: &str = "HWRM_";
const COMMAND: &str = "CMDQ_BASE_OPCODE_";

/// A request of the firmware channel, or a command of the RoCE engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Request(RequestType),
    Command(Opcode),
}

impl Asked {
    /// Its name in the C headers, without what all begin with.
    fn name(self) -> Option<&'static str> {
        match self {
            Asked::Request(kind) => {
                let all = RequestType::SYMBOLS.iter().find(|(known, _)| *known == kind);
                all.and_then(|(_, symbol)| symbol.strip_prefix(REQUEST))
            }
            Asked::Command(opcode) => {
                let all = Opcode::SYMBOLS.iter().find(|(known, _)| *known == opcode);
                all.and_then(|(_, symbol)| symbol.strip_prefix(COMMAND))
            }
        }
    }

    /// The one with this name.
    fn named(name: &str) -> Option<Asked> {
        let requests = RequestType::SYMBOLS.iter().map(|&(kind, _)| Asked::Request(kind));
        let commands = Opcode::SYMBOLS.iter().map(|&(opcode, _)| Asked::Command(opcode));
        requests.chain(commands).find(|asked| asked.name() == Some(name))
    }
}

/// What is to be refused, and what was asked.
#[derive(Default)]
pub(super) struct Refusals {
    planned: Option<(Asked, u64)>,
    given: BTreeMap<&'static str, u64>,
}

impl Netxtreme {
    /// The firmware is to refuse what has this name in the C headers (`RING_ALLOC`, `CREATE_QP`),
    /// after `skip` more of it. Answers whether there is such a thing.
    pub fn plan_refusal(&mut self, name: &str, skip: u64) -> bool {
        let Some(asked) = Asked::named(name) else { return false };
        self.refusals.planned = Some((asked, skip));
        true
    }

    /// Whether a planned refusal has not come yet.
    pub fn is_refusal_planned(&self) -> bool {
        self.refusals.planned.is_some()
    }

    /// How often each was asked since this was called last.
    pub fn take_given(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.refusals.given)
    }

    /// Whether what is asked now is to be refused.
    pub(super) fn refuses(&mut self, asked: Asked) -> bool {
        if let Some(name) = asked.name() {
            *self.refusals.given.entry(name).or_default() += 1;
        }
        match &mut self.refusals.planned {
            Some((planned, 0)) if *planned == asked => {
                self.refusals.planned = None;
                true
            }
            Some((planned, skip)) if *planned == asked => {
                *skip -= 1;
                false
            }
            _ => false,
        }
    }
}
