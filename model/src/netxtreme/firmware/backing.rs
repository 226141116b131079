//! The backing store's requests.

use super::{Answered, answer, done};
use crate::netxtreme::Netxtreme;
use crate::netxtreme::context::{self, Description};
use doorbell::bnxt::abi::firmware::ErrorCode;
use doorbell::bnxt::abi::firmware::context::{
    CFG_ALL_DONE, FuncBackingStoreCfgV2Request, FuncBackingStoreQcapsV2Answer,
    FuncBackingStoreQcapsV2Request, context_flags, context_type,
};
use zerocopy::FromZeros;

impl Netxtreme {
    pub(super) fn context_type(&self, request: &FuncBackingStoreQcapsV2Request) -> Answered {
        let kind = request.kind.get();
        let types = context::types(&self.identity.bounds);
        let mut about = FuncBackingStoreQcapsV2Answer::new_zeroed();
        about.kind = kind.into();
        let next = types.iter().map(|kind| kind.kind).find(|&next| next > kind);
        about.next_valid_type = next.unwrap_or(context_type::INVALID).into();
        if let Some(description) = types.iter().find(|known| known.kind == kind) {
            let Description { entry_bytes, most, fewest, multiple, instances, .. } = *description;
            about.entry_size = entry_bytes.into();
            let mut flags = context_flags::TYPE_VALID;
            if let Some(fill) = description.fill {
                flags |= context_flags::ENABLE_CTX_KIND_INIT;
                about.ctx_init_value = fill;
            }
            about.flags = flags.into();
            about.instance_bit_map = instances.into();
            about.entry_multiple = multiple;
            about.max_num_entries = most.into();
            about.min_num_entries = fewest.into();
            about.subtype_valid_cnt = description.parts.len() as u8;
            for (to, &part) in about.split_entry.iter_mut().zip(description.parts.iter()) {
                *to = part.into();
            }
        }
        answer(&about)
    }

    pub(super) fn lend_context(&mut self, request: &FuncBackingStoreCfgV2Request) -> Answered {
        let types = context::types(&self.identity.bounds);
        let kind = request.kind.get();
        let description = types.iter().find(|known| known.kind == kind);
        let description = description.ok_or(ErrorCode::InvalidParams)?;
        if let Err(why) = self.contexts.lend(description, request, self.memory.space()) {
            self.log.note(format_args!("the memory of context type {kind:#x}: {why}"));
            return Err(ErrorCode::InvalidParams);
        }
        if request.flags.get() & CFG_ALL_DONE != 0
            && let Err(missing) = self.contexts.seal(&types)
        {
            self.log.note(format_args!("no memory was lent for context type {missing:#x}"));
            return Err(ErrorCode::InvalidParams);
        }
        done()
    }
}
