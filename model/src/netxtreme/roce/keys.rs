//! Memory keys.

use super::{Outcome, done};
use crate::fabric::Fabric;
use crate::memory::{Access, Pages, Registration};
use crate::netxtreme::Netxtreme;
use crate::netxtreme::page_table::Table;
use doorbell::bnxt::abi::command::{
    AllocateKey, CommandHeader, DeallocateKey, DeregisterRegion, RegisterRegion,
};
use doorbell::bnxt::abi::event::CommandStatus;
use doorbell::bnxt::abi::field::RegionAccess;

/// The command allocates the key (`CMDQ_REGISTER_MR_FLAGS_ALLOC_MR`).
const ALLOCATE: u16 = 1;
/// A region that is not registered is of the kind that peers may take away (`CMDQ_ALLOCATE_MRW_*`).
const PHYSICAL: u8 = 1;
/// The size of a region that is all of memory.
const EVERYTHING: u64 = u64::MAX;
/// The most bytes of a region.
pub(super) const MOST_BYTES: u64 = 1 << 39;

/// Nothing, until something is registered.
fn nothing(domain: u32, remote_invalidate: bool) -> Registration {
    Registration {
        protection_domain: domain,
        access: Access::default(),
        start: 0,
        length: 0,
        pages: Pages::identity(0),
        relaxed: false,
        remote_invalidate,
    }
}

fn access(bits: RegionAccess) -> Access {
    Access {
        local_write: bits.local_write(),
        remote_write: bits.remote_write(),
        remote_read: bits.remote_read(),
        remote_atomic: bits.remote_atomic(),
    }
}

impl Netxtreme {
    fn insert_key(&mut self, registration: Registration) -> Result<u32, CommandStatus> {
        let (most, _) = self.contexts.keys_and_vectors();
        let own = self.engine.all_of_memory.len();
        if self.memory.keys.len().saturating_sub(own) >= most as usize {
            return Err(CommandStatus::Resources);
        }
        self.memory.keys.insert(registration, None).map_err(|_| CommandStatus::Resources)
    }

    pub(super) fn allocate_key(&mut self, command: &AllocateKey) -> Outcome {
        let kind = command.mrw_flags & 0xf;
        if kind > PHYSICAL {
            // Memory windows: it says that it has none.
            return Err(CommandStatus::InvalidParameter);
        }
        let registration = nothing(command.pd_id.get(), kind == PHYSICAL);
        Ok(self.insert_key(registration)?.into())
    }

    pub(super) fn register_region(
        &mut self,
        header: &CommandHeader,
        command: &RegisterRegion,
    ) -> Outcome {
        let (start, length) = (command.va.get(), command.mr_size.get());
        let key = command.key.get();
        let allocates = header.flags.get() & ALLOCATE != 0;
        let known = self.memory.keys.get(key).map(|known| known.protection_domain);
        let domain = match (allocates, known) {
            (true, _) => key,
            (false, Some(domain)) => domain,
            (false, None) => return Err(CommandStatus::InvalidParameter),
        };
        let pages = if length == EVERYTHING && command.pbl.get() == 0 {
            Pages::identity(start)
        } else {
            let shape = command.log2_pg_size_lvl;
            if length > MOST_BYTES || command.access.zero_based() {
                return Err(CommandStatus::InvalidParameter);
            }
            let table = Table {
                top: command.pbl.get(),
                levels: shape.levels(),
                log_page: shape.log2_page_size(),
            };
            let within =
                start & 1u64.checked_shl(table.log_page.into()).unwrap_or(1).wrapping_sub(1);
            table.pages(self.memory.space(), within, length).map_err(|why| {
                self.log.note(format_args!("a region of {length:#x} bytes at {start:#x}: {why}"));
                CommandStatus::InvalidParameter
            })?
        };
        let registration = Registration {
            access: access(command.access),
            start,
            length,
            pages,
            ..nothing(domain, false)
        };
        if allocates {
            return Ok(self.insert_key(registration)?.into());
        }
        self.memory.keys.change(key, |known| {
            *known = Registration { remote_invalidate: known.remote_invalidate, ..registration };
        });
        Ok(key.into())
    }

    pub(super) fn deregister_region(
        &mut self,
        command: &DeregisterRegion,
        fabric: &mut dyn Fabric,
    ) -> Outcome {
        fabric.settle(self.port);
        let changed = self.memory.keys.change(command.lkey.get(), |known| {
            *known = nothing(known.protection_domain, known.remote_invalidate);
        });
        if changed { done() } else { Err(CommandStatus::InvalidParameter) }
    }

    pub(super) fn deallocate_key(
        &mut self,
        command: &DeallocateKey,
        fabric: &mut dyn Fabric,
    ) -> Outcome {
        fabric.settle(self.port);
        let key = command.key.get();
        let own = self.engine.all_of_memory.values().any(|&(own, _)| own == key);
        if own || self.memory.keys.remove(key).is_none() {
            return Err(CommandStatus::InvalidParameter);
        }
        done()
    }

    /// The key that stands for all of memory in a protection domain, used once more.
    pub(super) fn use_all_of_memory(&mut self, domain: u32) -> Result<u32, CommandStatus> {
        if let Some((key, users)) = self.engine.all_of_memory.get_mut(&domain) {
            *users += 1;
            return Ok(*key);
        }
        let all = Registration {
            access: Access { local_write: true, ..Access::default() },
            length: EVERYTHING,
            ..nothing(domain, false)
        };
        let key = self.memory.keys.insert(all, None).map_err(|_| CommandStatus::Resources)?;
        self.engine.all_of_memory.insert(domain, (key, 1));
        Ok(key)
    }

    /// Used once less.
    pub(super) fn leave_all_of_memory(&mut self, domain: u32) {
        if let Some((key, users)) = self.engine.all_of_memory.get_mut(&domain) {
            *users -= 1;
            if *users == 0 {
                let key = *key;
                self.memory.keys.remove(key);
                self.engine.all_of_memory.remove(&domain);
            }
        }
    }
}
