//! Shared receive queues: memory pools of receives (RMP), and the older kinds.

use super::layout::work_queue::{arm_rq_in, create_out, modify_in, rmpc, srqc, wq, xrc_srqc};
use super::page_list::{self, WorkQueue};
use super::status::{Done, Refusal};
use super::{Firmware, answer, part};
use crate::connectx::{ExtendedReceives, SharedReceiveContext};

/// Where the context is in commands about memory pools, and their queue in it.
const POOL_CONTEXT: usize = 32;
const POOL_QUEUE: usize = POOL_CONTEXT + 0x30;
/// Where the context is in commands about the older kinds.
const CONTEXT: usize = 16;

impl Firmware {
    pub(super) fn create_memory_pool(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let queue = part(input, POOL_QUEUE, wq::BYTES)?;
        let WorkQueue { protection_domain, ring, log_entries, log_stride, record } =
            page_list::work_queue(input, queue)?;
        let made = SharedReceiveContext {
            protection_domain,
            ring,
            log_entries,
            log_stride,
            record,
            extended: None,
        };
        let context = part(input, POOL_CONTEXT, rmpc::BYTES)?.to_vec();
        self.make_shared(made, context, output)
    }

    pub(super) fn create_extended_receives(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let context = part(input, CONTEXT, xrc_srqc::BYTES)?;
        let log_entries = xrc_srqc::LOG_XRC_SRQ_SIZE.get(context) as u8;
        let log_stride = xrc_srqc::LOG_RQ_STRIDE.get(context) as u8 + 4;
        // The address of the record is in two words, of which the lower ends two bits early.
        let record = xrc_srqc::DB_RECORD_ADDR_H.get(context) << 32 | u64::from(record_low(context));
        let made = SharedReceiveContext {
            protection_domain: xrc_srqc::PD.get32(context),
            ring: page_list::ring(
                input,
                page_list::LIST,
                xrc_srqc::LOG_PAGE_SIZE.get32(context) + 12,
                xrc_srqc::PAGE_OFFSET.get(context),
                1 << (log_entries + log_stride),
            )?,
            log_entries,
            log_stride,
            record,
            extended: Some(ExtendedReceives {
                domain: xrc_srqc::XRCD.get32(context),
                queue: xrc_srqc::CQN.get32(context),
                user_index: xrc_srqc::USER_INDEX.get32(context),
            }),
        };
        let context = context.to_vec();
        self.make_shared(made, context, output)
    }

    pub(super) fn create_shared_receives(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let context = part(input, CONTEXT, srqc::BYTES)?;
        let log_entries = srqc::LOG_SRQ_SIZE.get(context) as u8;
        let log_stride = srqc::LOG_RQ_STRIDE.get(context) as u8 + 4;
        let made = SharedReceiveContext {
            protection_domain: srqc::PD.get32(context),
            ring: page_list::ring(
                input,
                page_list::LIST,
                srqc::LOG_PAGE_SIZE.get32(context) + 12,
                srqc::PAGE_OFFSET.get(context),
                1 << (log_entries + log_stride),
            )?,
            log_entries,
            log_stride,
            record: srqc::DBR_ADDR.get(context),
            extended: None,
        };
        let context = context.to_vec();
        self.make_shared(made, context, output)
    }

    fn make_shared(
        &mut self,
        made: SharedReceiveContext,
        context: Vec<u8>,
        output: &mut [u8],
    ) -> Done {
        let number = self.with_nic(|nic, _, _| nic.create_shared_receives(made))?;
        self.shared_receives.insert(number, context);
        create_out::RMPN.set(output, number.into());
        Ok(())
    }

    pub(super) fn destroy_shared_receives(&mut self, input: &[u8]) -> Done {
        let number = modify_in::RQN.get32(input);
        self.with_nic(|nic, _, _| nic.destroy_shared_receives(number))?;
        self.shared_receives.remove(&number);
        Ok(())
    }

    /// QUERY_RMP, QUERY_SRQ, QUERY_XRC_SRQ: `pool` says which, for their contexts are in other places.
    pub(super) fn query_shared_receives(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        pool: bool,
    ) -> Done {
        let number = modify_in::RQN.get32(input);
        let limit = self.network.with_nic(self.nic, |nic, _, _| nic.shared_receive_limit(number));
        let context = self.shared_receives.get(&number);
        let context = context.ok_or_else(|| Refusal::unknown("shared receive queue", number))?;
        let (at, mark) = match pool {
            true => (POOL_CONTEXT, wq::LWM.within(POOL_QUEUE)),
            false => (CONTEXT, srqc::LWM.within(CONTEXT)),
        };
        answer(output, at, context);
        mark.set(output, limit.flatten().unwrap_or(0).into());
        Ok(())
    }

    /// Asks for an event when few receives are left. The mark is kept with the queue.
    pub(super) fn arm_shared_receives(&mut self, input: &[u8]) -> Done {
        let number = arm_rq_in::SRQ_NUMBER.get32(input);
        let mark = arm_rq_in::LWM.get(input) as u16;
        self.limit_shared_receives(number, mark)
    }

    /// MODIFY_RMP: the same, with the mark in the queue's context.
    pub(super) fn modify_memory_pool(&mut self, input: &[u8]) -> Done {
        let number = modify_in::RQN.get32(input);
        let mark = wq::LWM.get(part(input, POOL_QUEUE, wq::BYTES)?) as u16;
        self.limit_shared_receives(number, mark)
    }

    fn limit_shared_receives(&mut self, number: u32, mark: u16) -> Done {
        self.with_nic(|nic, _, _| nic.limit_shared_receives(number, mark))
    }
}

fn record_low(context: &[u8]) -> u32 {
    // `struct mlx5_ifc_xrc_srqc_bits`: db_record_addr_l, 30 bits, then two of no meaning.
    super::field::Field::new(0x160, 30).get32(context) << 2
}
