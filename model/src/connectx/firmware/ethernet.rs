//! Ethernet: send and receive queues.

use super::field::Field;
use super::layout::work_queue::{modify_in, rqc, sqc, wq};
use super::page_list::{self, WorkQueue};
use super::status::{Done, Refusal};
use super::{Firmware, answer, part};
use crate::connectx::{FrameQueueContext, FrameQueueState};

/// Where the context is in commands and answers, and a queue's ring in it.
const CONTEXT: usize = 32;
const QUEUE: usize = CONTEXT + 0x30;
/// Where an object is named: 24 bits from byte 9 on.
const OBJECT: Field = Field::new(0x48, 24);

/// A queue of frames: which way, and the context that it was made of.
pub(super) struct FrameQueue {
    sends: bool,
    context: Vec<u8>,
}

/// States of queues (`MLX5_SQC_STATE_*`, `MLX5_RQC_STATE_*`).
fn state(code: u64) -> Done<FrameQueueState> {
    match code {
        0 => Ok(FrameQueueState::Reset),
        1 => Ok(FrameQueueState::Ready),
        3 => Ok(FrameQueueState::Error),
        other => Err(Refusal::parameter("state of a frame queue", other)),
    }
}

fn state_field(sends: bool) -> Field {
    if sends { sqc::STATE } else { rqc::STATE }
}

impl Firmware {
    pub(super) fn create_frame_queue(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        sends: bool,
    ) -> Done {
        let context = part(input, CONTEXT, sqc::BYTES)?;
        let queue = part(input, QUEUE, wq::BYTES)?;
        if !sends && rqc::MEM_RQ_TYPE.is_set(context) {
            return Err(Refusal::parameter("kind of a receive queue", 1));
        }
        let WorkQueue { protection_domain, ring, log_entries, log_stride, record } =
            page_list::work_queue(input, queue)?;
        let made = FrameQueueContext {
            protection_domain,
            queue: if sends { sqc::CQN.get32(context) } else { rqc::CQN.get32(context) },
            ring,
            log_entries,
            log_stride,
            record,
            user_index: sqc::USER_INDEX.get32(context),
            transport_domain: match sends {
                true => self.send_interfaces.get(&sqc::TIS_NUM_0.get32(context)).copied(),
                false => None,
            },
        };
        let number = self.with_nic(|nic, _, _| nic.create_frame_queue(made, sends))?;
        let context = context.to_vec();
        self.frame_queues.insert(number, FrameQueue { sends, context });
        OBJECT.set(output, number.into());
        Ok(())
    }

    fn frame_queue(&mut self, number: u32, sends: bool) -> Done<&mut FrameQueue> {
        let queue = self.frame_queues.get_mut(&number).filter(|queue| queue.sends == sends);
        queue.ok_or_else(|| Refusal::unknown("frame queue", number))
    }

    pub(super) fn modify_frame_queue(&mut self, input: &[u8], sends: bool) -> Done {
        let number = modify_in::RQN.get32(input);
        self.frame_queue(number, sends)?;
        let state = state(state_field(sends).within(CONTEXT).get(input))?;
        self.with_nic(|nic, _, _| nic.modify_frame_queue(number, sends, state))
    }

    pub(super) fn query_frame_queue(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        sends: bool,
    ) -> Done {
        let number = modify_in::RQN.get32(input);
        let state =
            self.network.with_nic(self.nic, |nic, _, _| nic.frame_queue_state(number, sends));
        let code = match state.flatten() {
            Some(FrameQueueState::Ready) => 1,
            Some(FrameQueueState::Error) => 3,
            Some(FrameQueueState::Reset) | None => 0,
        };
        let queue = self.frame_queue(number, sends)?;
        state_field(sends).set(&mut queue.context, code);
        answer(output, CONTEXT, &queue.context);
        Ok(())
    }

    pub(super) fn destroy_frame_queue(&mut self, input: &[u8], sends: bool) -> Done {
        let number = OBJECT.get32(input);
        self.frame_queue(number, sends)?;
        self.with_nic(|nic, _, _| nic.destroy_frame_queue(number, sends))?;
        self.frame_queues.remove(&number);
        Ok(())
    }
}
