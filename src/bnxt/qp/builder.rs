//! Making a queue pair.

use super::connect::{inbound_slots, outbound_slots};
use super::{Pair, Parts, QueuePair, ReceiveQueue, Resources, SendQueue};
use crate::bnxt::Nic;
use crate::bnxt::abi::command::CreateQueuePair;
use crate::bnxt::abi::doorbell::QueueNumber;
use crate::bnxt::abi::field::{QueuePages, QueuePairFlags, QueuePairKind};
use crate::bnxt::abi::page::PAGE_BYTES;
use crate::bnxt::abi::wqe::{HEADER_SLOTS, MessageSearch, SLOT_BYTES};
use crate::bnxt::context::{Context, DOORBELL_PAGE, PROTECTION_DOMAIN};
use crate::bnxt::cq::{CompletionQueue, CompletionShared, wrong_number};
use crate::bnxt::memory::{self, PageTable, Purpose};
use crate::bnxt::ring::entry::Limits;
use crate::bnxt::ring::receive::ReceiveParts;
use crate::bnxt::ring::send::{SLOTS_OF_ONE_PIECE, SendParts};
use crate::bnxt::ring::{InFlight, Outstanding, ReceiveRing, SendRing};
use crate::error::Error;
use crate::ring::committed::Committed;
use crate::ring::segment::Segment;
use crate::state::Reset;
use crate::wr::MAX_MESSAGE;
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ptr::NonNull;
use doorbell_hal::Errno;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::pci::{DeviceAddresses, PciFunction};
use doorbell_hal::sync::{AtomicBool, DmaCell, Ordering};
use zerocopy::FromZeros;

/// The queue pair that [`Nic::queue_pair`] will make.
#[must_use = "a builder makes nothing until `create`"]
pub struct QueuePairBuilder<F: PciFunction> {
    context: Arc<Context<F>>,
    send_completions: Arc<CompletionShared<F>>,
    receive_completions: Arc<CompletionShared<F>>,
    sends: u32,
    receives: u32,
    pieces: u32,
    read_depth: u8,
    overcommit: bool,
}

/// Reads and atomics that a queue pair answers at once, unless it is asked for others.
const READ_DEPTH: u8 = 16;
/// Send slots come in multiples of this, so that the messages after them start at a page.
const LEAST_SLOTS: u32 = 256;
/// Bytes of an entry of the tables of reads and atomics (`struct xrrq_irrq`, `xrrq_orrq`).
const READ_BYTES: usize = 32;

impl<F: PciFunction> Nic<F> {
    /// Begins a queue pair whose completions go to `completions`: with room for 128 requests of one
    /// piece, and no receives, until something else is said.
    pub fn queue_pair<N>(&self, completions: &CompletionQueue<F, N>) -> QueuePairBuilder<F> {
        QueuePairBuilder {
            context: self.context.clone(),
            send_completions: completions.shared.clone(),
            receive_completions: completions.shared.clone(),
            sends: 128,
            receives: 0,
            pieces: 1,
            read_depth: READ_DEPTH.min(self.context.facts.limits.read_depth),
            overcommit: false,
        }
    }
}

impl<F: PciFunction> QueuePairBuilder<F> {
    /// Asks for room for exactly `sends` requests of one piece, from 0 to [`Nic::max_sends`].
    pub fn sends(self, sends: u32) -> Self {
        QueuePairBuilder { sends, ..self }
    }

    /// Asks for room for exactly `receives` receives, from 0 to [`Nic::max_receives`].
    pub fn receives(self, receives: u32) -> Self {
        QueuePairBuilder { receives, ..self }
    }

    /// Lets a receive scatter to up to `pieces` pieces. One, unless this is said.
    pub fn receive_pieces(self, pieces: u32) -> Self {
        QueuePairBuilder { pieces, ..self }
    }

    /// Sends the completions of receives to a completion queue of their own.
    pub fn receive_completions<N>(self, completions: &CompletionQueue<F, N>) -> Self {
        QueuePairBuilder { receive_completions: completions.shared.clone(), ..self }
    }

    /// Answers up to `depth` reads and atomics of the peer at once, at most what the NIC can. 16,
    /// or what the NIC can, unless this is said.
    pub fn read_depth(self, depth: u8) -> Self {
        QueuePairBuilder { read_depth: depth, ..self }
    }

    /// Lets more entries be outstanding than the completion queues hold. The engine then sees to it
    /// that they are not overrun: by unsignaled requests, say.
    pub fn overcommit(self) -> Self {
        QueuePairBuilder { overcommit: true, ..self }
    }

    /// Makes the queue pair.
    pub fn create(self) -> Result<QueuePair<Reset, F>, Error> {
        self.check()?;
        let (sends, receives) = (u64::from(self.sends), u64::from(self.receives));
        let send = (&self.send_completions.committed, sends);
        let receive = (&self.receive_completions.committed, receives);
        Committed::commit_for(send, receive, self.overcommit, || self.create_committed())
    }

    fn check(&self) -> Result<(), Error> {
        let limits = &self.context.facts.limits;
        Error::check_range("the number of requests", self.sends, 0, limits.entries)?;
        Error::check_range("the number of receives", self.receives, 0, limits.entries)?;
        Error::check_range("the number of pieces of a receive", self.pieces, 1, limits.pieces)?;
        Error::check_range("the read depth", self.read_depth.into(), 0, limits.read_depth.into())?;
        for completions in [&self.send_completions, &self.receive_completions] {
            if !Arc::ptr_eq(&completions.context, &self.context) {
                return Err(Error::Mismatched { what: "the completion queue and the NIC" });
            }
        }
        Ok(())
    }

    fn create_committed(&self) -> Result<QueuePair<Reset, F>, Error> {
        let context = &self.context;
        let function = &context.function;
        let limits = &context.facts.limits;
        let packet_sequence = packet_sequence(context)?;
        // A power of two, so that it does not matter modulo what the NIC counts requests.
        let slots = (self.sends * SLOTS_OF_ONE_PIECE + 1).next_power_of_two().max(LEAST_SLOTS);
        let send_bytes = slots as usize * SLOT_BYTES;
        let message_bytes = slots as usize / 2 * size_of::<MessageSearch>();
        let stride = HEADER_SLOTS + self.pieces as usize;
        // One more than are outstanding, so that a full ring is not as an empty one.
        let receives = (self.receives + 1).next_power_of_two();
        let receive_bytes = receives as usize * stride * SLOT_BYTES;

        let ring = |len: usize| {
            let memory = memory::allocate(function, len.next_multiple_of(PAGE_BYTES))?;
            let table = PageTable::new(function, &memory, len, PAGE_BYTES, Purpose::Ring)?;
            Ok::<_, Error>((memory, table))
        };
        let (send, receive) = (ring(send_bytes + message_bytes)?, ring(receive_bytes)?);
        let reads = |slots: u8| {
            let len = (usize::from(slots) * READ_BYTES).next_multiple_of(PAGE_BYTES);
            let memory = memory::allocate(function, len)?;
            if memory.granule() < len {
                // The NIC takes it for one block.
                return Err(context.refused("the allocation of memory in one block")(
                    Errno::ENOMEM,
                ));
            }
            let none = || context.refused("a device address")(Errno::EFAULT);
            let address = memory.device_address(0).ok_or_else(none)?;
            Ok((memory, address))
        };
        let (outbound, outbound_at) = reads(outbound_slots(limits.initiator_depth))?;
        let (inbound, inbound_at) = reads(inbound_slots(self.read_depth))?;
        let (send_register, receive_register) = (context.register()?, context.register()?);
        let index = context.take_index()?;
        let resources = Arc::new(Resources {
            context: context.clone(),
            index,
            in_flight: InFlight {
                send: Outstanding::new(slots / 2),
                receive: Outstanding::new(receives),
                send_mask: slots - 1,
                send_ring: self.send_completions.number.get(),
                receive_ring: self.receive_completions.number.get(),
            },
            reusable: AtomicBool::new(true),
        });
        let command = CreateQueuePair {
            qp_handle: u64::from(index).into(),
            qp_flags: QueuePairFlags::new().with_variable_sized_wqe_enabled(true),
            kind: QueuePairKind::ReliableConnected.code(),
            sq_pg_size_sq_lvl: QueuePages::new().with_levels(send.1.levels),
            rq_pg_size_rq_lvl: QueuePages::new().with_levels(receive.1.levels),
            dpi: DOORBELL_PAGE.into(),
            sq_size: slots.into(),
            rq_size: receives.into(),
            sq_fwo_sq_sge: (limits.pieces as u16).into(),
            rq_fwo_rq_sge: (self.pieces as u16).into(),
            scq_cid: self.send_completions.number.get().into(),
            rcq_cid: self.receive_completions.number.get().into(),
            pd_id: PROTECTION_DOMAIN.into(),
            sq_pbl: send.1.top.into(),
            rq_pbl: receive.1.top.into(),
            irrq_addr: inbound_at.into(),
            orrq_addr: outbound_at.into(),
            ..FromZeros::new_zeroed()
        };
        let (send_slots, receive_slots) = (send.0.as_ptr(), receive.0.as_ptr());
        let parts = Parts { _send: send, _receive: receive, _reads: [outbound, inbound] };
        let number = match context.command(command, &mut []) {
            Ok(event) => event.xid.get(),
            Err(error) => {
                if matches!(error, Error::NoAnswer { .. }) {
                    context.keep(parts);
                }
                return Err(error);
            }
        };
        let Some(number) = QueueNumber::new(number) else {
            context.keep(parts);
            return Err(wrong_number(context, "CREATE_QP", number));
        };
        resources.reusable.store(false, Ordering::Relaxed);
        context.table.set(index, &resources.in_flight);
        context.add_queue_pair(number.get(), index);
        let pair = Arc::new(Pair {
            context: context.clone(),
            number,
            read_depth: self.read_depth,
            send_completions: self.send_completions.clone(),
            receive_completions: self.receive_completions.clone(),
            send_entries: self.sends.into(),
            receive_entries: self.receives.into(),
            parts: Some(parts),
            resources,
        });
        let in_flight = &pair.resources.in_flight;
        // SAFETY: M1: the messages follow the slots in the memory of both.
        let messages: NonNull<DmaCell<u64>> = unsafe { send_slots.add(send_bytes) }.cast();
        let send = SendParts {
            slots: send_slots.cast::<Segment>(),
            len: slots,
            messages,
            most: self.sends,
            limits: Limits {
                pieces: limits.pieces as usize,
                inline: limits.inline as usize,
                max_message: MAX_MESSAGE.into(),
            },
            queue_pair: number,
            outstanding: NonNull::from(&in_flight.send),
            register: send_register,
        };
        let receive = ReceiveParts {
            slots: receive_slots.cast::<Segment>(),
            len: receives,
            most: self.receives,
            pieces: self.pieces,
            max_message: MAX_MESSAGE.into(),
            queue_pair: number,
            outstanding: NonNull::from(&in_flight.receive),
            register: receive_register,
        };
        // SAFETY: Q1: rings and ids are `pair`'s, which each queue holds with its ring. R1: each
        // register was opened with 8 bytes.
        let (send_ring, receive_ring) = unsafe { (SendRing::new(send), ReceiveRing::new(receive)) };
        let receive = ReceiveQueue { ring: receive_ring, pair: pair.clone() };
        let send = SendQueue { ring: send_ring, pair, packet_sequence, peer: None };
        Ok(QueuePair { send, receive, state: PhantomData })
    }
}

/// A packet sequence number that nobody can guess, so that a packet of an earlier connection is
/// not taken for one of this.
pub(super) fn packet_sequence<F: PciFunction>(context: &Context<F>) -> Result<u32, Error> {
    let random = context.function.random().map_err(context.refused("getrandom"))?;
    Ok(random & 0xff_ffff)
}
