//! The RoCE engine: its objects, and what each command does with them.

mod keys;
mod modify;
mod objects;
mod query;

pub(super) use objects::{Gid, SharedReceives, Vector};

use super::command_queue::{Finished, Outcome};
use super::completion_queue::CompletionQueue;
use super::nic::Netxtreme;
use super::queue_pair::QueuePair;
use super::refusal::Asked;
use crate::fabric::{Address, Fabric};
use doorbell::bnxt::abi::command::{Command, CommandHeader, InitializeFirmware};
use doorbell::bnxt::abi::event::CommandStatus;
use doorbell::bnxt::abi::opcode::Opcode;
use std::collections::BTreeMap;

/// The RoCE engine's objects.
#[derive(Default)]
pub(super) struct Engine {
    running: bool,
    /// The context that counts its packets; and the packets sent and received that it counts already.
    pub(super) statistics: u32,
    pub(super) counted: (u64, u64),
    pub(super) gids: BTreeMap<u16, Gid>,
    pub(super) queues: BTreeMap<u32, CompletionQueue>,
    pub(super) pairs: BTreeMap<u32, QueuePair>,
    pub(super) shared: BTreeMap<u32, SharedReceives>,
    pub(super) vectors: BTreeMap<u32, Vector>,
    /// Keys that stand for all of memory, by protection domain, and how many queue pairs use each.
    pub(super) all_of_memory: BTreeMap<u32, (u32, u32)>,
}

/// Bytes of the longest command.
const MOST_COMMAND: usize = 256;

/// A typed command out of its bytes; what was not sent is 0.
fn parse<C: Command>(bytes: &[u8]) -> Result<C, CommandStatus> {
    let mut whole = [0; MOST_COMMAND];
    let length = bytes.len().min(MOST_COMMAND);
    whole[..length].copy_from_slice(&bytes[..length]);
    let parsed = C::read_from_prefix(&whole[..]);
    parsed.map(|(command, _)| command).map_err(|_| CommandStatus::Internal)
}

/// Nothing to say but that it is done.
fn done() -> Outcome {
    Ok(Finished::default())
}

impl Netxtreme {
    /// Stops the engine: every object is gone, and so are the addresses.
    pub(super) fn stop_engine(&mut self, fabric: &mut dyn Fabric) {
        for gid in self.engine.gids.values() {
            fabric.unbind(self.port, Address::Gid(gid.gid));
        }
        for number in self.engine.pairs.keys() {
            self.schedule.forget(*number);
        }
        self.memory.keys.clear();
        self.engine = Engine::default();
    }

    pub(super) fn act_on_command(
        &mut self,
        header: &CommandHeader,
        bytes: &[u8],
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> Outcome {
        let opcode = Opcode::from_code(header.opcode).ok_or(CommandStatus::InvalidCommand)?;
        let before = [Opcode::QueryFunction, Opcode::QueryVersion, Opcode::InitializeFirmware];
        if !self.engine.running && !before.contains(&opcode) {
            return Err(CommandStatus::InvalidCommand);
        }
        if self.refuses(Asked::Command(opcode)) {
            return Err(CommandStatus::Failed);
        }
        match opcode {
            Opcode::QueryFunction => self.query_function(),
            Opcode::QueryVersion => self.query_version(),
            Opcode::InitializeFirmware => {
                if !self.contexts.is_sealed() {
                    return Err(CommandStatus::Resources);
                }
                self.engine.running = true;
                self.engine.statistics = parse::<InitializeFirmware>(bytes)?.stat_ctx_id.get();
                self.engine.counted = (self.counters.packets_sent, self.counters.packets_received);
                done()
            }
            Opcode::DeinitializeFirmware => {
                fabric.settle(self.port);
                self.stop_engine(fabric);
                done()
            }
            Opcode::AddGid => self.add_gid(&parse(bytes)?, fabric),
            Opcode::ModifyGid => self.modify_gid(&parse(bytes)?, fabric),
            Opcode::DeleteGid => self.delete_gid(&parse(bytes)?, fabric),
            Opcode::QueryGid => self.query_gid(&parse(bytes)?),
            Opcode::AllocateKey => self.allocate_key(&parse(bytes)?),
            Opcode::DeallocateKey => self.deallocate_key(&parse(bytes)?, fabric),
            Opcode::RegisterRegion => self.register_region(header, &parse(bytes)?),
            Opcode::DeregisterRegion => self.deregister_region(&parse(bytes)?, fabric),
            Opcode::CreateCompletionQueue => self.create_completion_queue(&parse(bytes)?),
            Opcode::DestroyCompletionQueue => self.destroy_completion_queue(&parse(bytes)?),
            Opcode::ResizeCompletionQueue => self.resize_completion_queue(&parse(bytes)?),
            Opcode::CreateSharedReceiveQueue => self.create_shared_receives(&parse(bytes)?),
            Opcode::DestroySharedReceiveQueue => self.destroy_shared_receives(&parse(bytes)?),
            Opcode::QuerySharedReceiveQueue => self.query_shared_receives(&parse(bytes)?),
            Opcode::CreateAddressHandle => self.create_vector(&parse(bytes)?),
            Opcode::DestroyAddressHandle => self.destroy_vector(&parse(bytes)?),
            Opcode::CreateQueuePair => self.create_queue_pair(&parse(bytes)?),
            Opcode::ModifyQueuePair => self.modify_queue_pair(&parse(bytes)?, now, fabric),
            Opcode::QueryQueuePair => self.query_queue_pair(&parse(bytes)?),
            Opcode::DestroyQueuePair => self.destroy_queue_pair(&parse(bytes)?, now, fabric),
            Opcode::ModifyCongestionControl => done(),
            Opcode::QueryStatistics
            | Opcode::QueryExtendedStatistics
            | Opcode::QueryCongestionControl => {
                // Nothing is counted, and congestion is not controlled.
                let side = vec![0; usize::from(header.resp_size) * 16];
                Ok(Finished { side, ..Finished::default() })
            }
        }
    }
}
