//! Completion queues.

use super::layout::command::command;
use super::layout::completion_queue::{cqc, create_cq_out, destroy_cq_in, modify_cq_in};
use super::page_list;
use super::status::{Done, Refusal, Status};
use super::{Firmware, answer};
use crate::connectx::CompletionQueueContext;

/// Where the context is in commands, and in QUERY_CQ's answer.
const CONTEXT: usize = 16;
/// MODIFY_CQ resizes the ring (`MLX5_CQ_OPMOD_RESIZE`).
const RESIZE: u64 = 1;

/// What a completion queue was made of.
pub(super) type Context = Vec<u8>;

impl Firmware {
    pub(super) fn create_completion_queue(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let context = context(input)?;
        let event_queue = cqc::C_EQN_OR_APU_ELEMENT.get32(context);
        if !self.events.contains(event_queue) {
            return Err(Refusal::unknown("event queue", event_queue));
        }
        let made = decode(context, input)?;
        let number = self.with_nic(|nic, _, _| nic.create_completion_queue(made))?;
        self.events.route(number, event_queue)?;
        self.completion_queues.insert(number, context.to_vec());
        create_cq_out::CQN.set(output, number.into());
        Ok(())
    }

    pub(super) fn destroy_completion_queue(&mut self, input: &[u8]) -> Done {
        let number = destroy_cq_in::CQN.get32(input);
        self.with_nic(|nic, _, _| nic.destroy_completion_queue(number))?;
        self.events.unroute(number);
        self.completion_queues.remove(&number);
        Ok(())
    }

    pub(super) fn query_completion_queue(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let number = destroy_cq_in::CQN.get32(input);
        let context = self.completion_queues.get(&number);
        let mut context =
            context.ok_or_else(|| Refusal::unknown("completion queue", number))?.clone();
        let producer = self.network.with_nic(self.nic, |nic, _, _| nic.completion_queue(number));
        if let Some(Some((producer, _))) = producer {
            cqc::PRODUCER_COUNTER.set(&mut context, producer.into());
        }
        answer(output, CONTEXT, &context);
        Ok(())
    }

    /// Gives a completion queue another ring. Moderation is taken and not done: every completion
    /// that is armed for raises its event.
    pub(super) fn modify_completion_queue(&mut self, input: &[u8]) -> Done {
        let number = modify_cq_in::CQN.get32(input);
        if !self.completion_queues.contains_key(&number) {
            return Err(Refusal::unknown("completion queue", number));
        }
        if command::OP_MOD.get(input) != RESIZE {
            return Ok(());
        }
        let new = context(input)?;
        let made = decode(new, input)?;
        let known = self.completion_queues.get(&number);
        if known.is_some_and(|known| cqc::CQE_SZ.get(known) != cqc::CQE_SZ.get(new)) {
            return Err(Refusal::parameter("size of a completion", made.entry_bytes));
        }
        let log_size = made.log_size;
        self.with_nic(|nic, _, _| nic.resize_completion_queue(number, made.ring, log_size))?;
        if let Some(known) = self.completion_queues.get_mut(&number) {
            cqc::LOG_CQ_SIZE.set(known, log_size.into());
        }
        Ok(())
    }
}

fn context(input: &[u8]) -> Done<&[u8]> {
    input
        .get(CONTEXT..CONTEXT + cqc::BYTES)
        .ok_or_else(|| Refusal::new(Status::BadInputLength, format_args!("{} bytes", input.len())))
}

/// The context, with the ring that the command lists.
fn decode(context: &[u8], input: &[u8]) -> Done<CompletionQueueContext> {
    let entry_bytes = match cqc::CQE_SZ.get(context) {
        0 => 64,
        1 => 128,
        other => return Err(Refusal::parameter("size of a completion", other)),
    };
    let log_size = cqc::LOG_CQ_SIZE.get(context) as u8;
    let length = u64::from(entry_bytes) << log_size;
    let log_page = cqc::LOG_PAGE_SIZE.get32(context) + 12;
    let offset = cqc::PAGE_OFFSET.get(context);
    Ok(CompletionQueueContext {
        ring: page_list::ring(input, page_list::LIST, log_page, offset, length)?,
        log_size,
        entry_bytes,
        record: cqc::DBR_ADDR.get(context),
        uar: cqc::UAR_PAGE.get32(context),
        ignore_overrun: cqc::OI.is_set(context),
    })
}
