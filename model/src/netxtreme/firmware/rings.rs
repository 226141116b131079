//! Rings and statistics.

use super::{Answered, answer, done};
use crate::netxtreme::Netxtreme;
use crate::netxtreme::ring::ChannelRing;
use crate::netxtreme::statistics::Statistics;
use doorbell::bnxt::abi::firmware::ErrorCode;
use doorbell::bnxt::abi::firmware::ring::{
    RingAllocAnswer, RingAllocRequest, RingFreeRequest, StatCtxAllocAnswer, StatCtxAllocRequest,
    StatCtxFreeRequest, ring_enables, ring_type,
};
use zerocopy::FromZeros;

/// Numbers of rings have 12 bits where completion queues of RoCE name them.
const MOST_NUMBER: u16 = 0xfff;

impl Netxtreme {
    pub(super) fn allocate_ring(&mut self, request: &RingAllocRequest) -> Answered {
        let kind = request.ring_type;
        let known =
            [ring_type::L2_CMPL, ring_type::TX, ring_type::RX, ring_type::RX_AGG, ring_type::NQ];
        if !known.contains(&kind) {
            return Err(ErrorCode::InvalidParams);
        }
        if kind == ring_type::NQ && request.logical_id.get() >= self.identity.bounds.vectors {
            return Err(ErrorCode::InvalidParams);
        }
        if kind == ring_type::L2_CMPL {
            let given = request.enables.get() & ring_enables::NQ_RING_ID_VALID != 0;
            let ring = request.nq_ring_id.get();
            let there = self.rings.get(&ring).is_some_and(ChannelRing::is_notifications);
            if !given || !there {
                return Err(ErrorCode::InvalidParams);
            }
        }
        if kind == ring_type::TX {
            let completions = self.rings.get(&request.cmpl_ring_id.get());
            if !completions.is_some_and(|ring| ring.is(ring_type::L2_CMPL)) {
                return Err(ErrorCode::InvalidParams);
            }
        }
        let ring = ChannelRing::new(request, self.memory.space()).map_err(|why| {
            self.log.note(format_args!("a ring of kind {kind}: {why}"));
            ErrorCode::InvalidParams
        })?;
        let number = self.ring_number()?;
        self.rings.insert(number, ring);
        let mut made = RingAllocAnswer::new_zeroed();
        made.ring_id = number.into();
        made.logical_ring_id = request.logical_id;
        answer(&made)
    }

    /// A number that no ring has.
    fn ring_number(&mut self) -> Result<u16, ErrorCode> {
        for _ in 0..MOST_NUMBER {
            let number = self.next_ring;
            self.next_ring = if number >= MOST_NUMBER { 1 } else { number + 1 };
            if !self.rings.contains_key(&number) {
                return Ok(number);
            }
        }
        Err(ErrorCode::ResourceAllocError)
    }

    pub(super) fn free_ring(&mut self, request: &RingFreeRequest) -> Answered {
        let number = request.ring_id.get();
        let Some(ring) = self.rings.get(&number) else {
            return Err(ErrorCode::InvalidParams);
        };
        if !ring.is(request.ring_type) {
            return Err(ErrorCode::InvalidParams);
        }
        self.rings.remove(&number);
        if self.events == Some(number) {
            self.events = None;
        }
        if self.commands.as_ref().is_some_and(|queue| queue.events == number) {
            self.commands = None;
        }
        done()
    }

    /// The bounds of how often a completion ring interrupts
    /// (`struct hwrm_ring_aggint_qcaps_output`): none that anything here depends on.
    pub(super) fn interrupt_bounds(&self) -> Answered {
        Err(ErrorCode::CmdNotSupported)
    }

    pub(super) fn allocate_statistics(&mut self, request: &StatCtxAllocRequest) -> Answered {
        let (at, bytes) = (request.stats_dma_addr.get(), request.stats_dma_length.get());
        let context = Statistics::new(at, bytes).ok_or(ErrorCode::InvalidParams)?;
        let number = (0..).find(|number| !self.statistics.contains_key(number)).unwrap_or(0);
        if number >= self.contexts.statistics() {
            return Err(ErrorCode::ResourceAllocError);
        }
        self.statistics.insert(number, context);
        let mut made = StatCtxAllocAnswer::new_zeroed();
        made.stat_ctx_id = number.into();
        answer(&made)
    }

    pub(super) fn free_statistics(&mut self, request: &StatCtxFreeRequest) -> Answered {
        match self.statistics.remove(&request.stat_ctx_id.get()) {
            Some(_) => done(),
            None => Err(ErrorCode::InvalidParams),
        }
    }
}
