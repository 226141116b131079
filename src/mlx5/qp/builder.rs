//! Making a queue pair.

use super::{Pair, Parts, QueuePair, ReceiveQueue, Resources, SendQueue};
use crate::error::Error;
use crate::mlx5::Nic;
use crate::mlx5::abi::driver::{self, CreateQpFlags, CreateQpResp};
use crate::mlx5::abi::verbs::method::{self, UHW_IN, UHW_OUT};
use crate::mlx5::abi::verbs::qp::{QpCap, QpType};
use crate::mlx5::abi::wqe::{MAX_SEGMENTS, SEGMENT_BYTES, SLOT_BYTES, SLOT_SEGMENTS};
use crate::mlx5::abi::{U24, cqe, uar};
use crate::mlx5::call::Call;
use crate::mlx5::context::{Context, Record, SendRegister};
use crate::mlx5::cq::{CompletionQueue, CompletionShared};
use crate::mlx5::ring::entry::{LEAST_SLOTS, Limits};
use crate::mlx5::ring::receive::ReceiveParts;
use crate::mlx5::ring::segment::Segment;
use crate::mlx5::ring::send::SendParts;
use crate::mlx5::ring::{InFlight, Outstanding, ReceiveRing, SendRing};
use crate::ring::committed::Committed;
use crate::state::Reset;
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ptr::NonNull;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::mmio::{Caching, Uncached, WriteCombining};
use doorbell_hal::sync::{AtomicBool, Ordering};
use doorbell_hal::uverbs::Uverbs;
use zerocopy::FromZeros;

/// The queue pair that [`Nic::queue_pair`] will make.
#[must_use = "a builder makes nothing until `create`"]
pub struct QueuePairBuilder<V: Uverbs, C: Caching = Uncached> {
    context: Arc<Context<V>>,
    send_completions: Arc<CompletionShared<V>>,
    receive_completions: Arc<CompletionShared<V>>,
    sends: u32,
    receives: u32,
    pieces: u32,
    read_depth: u8,
    overcommit: bool,
    caching: PhantomData<C>,
}

/// Reads and atomics that a queue pair answers at once, unless it is asked for others.
const READ_DEPTH: u8 = 16;

impl<V: Uverbs> Nic<V> {
    /// Begins a queue pair whose completions go to `completions`: with 128 send slots, no receives,
    /// and an uncached doorbell register, until something else is said.
    pub fn queue_pair<N>(&self, completions: &CompletionQueue<V, N>) -> QueuePairBuilder<V> {
        QueuePairBuilder {
            context: self.context.clone(),
            send_completions: completions.shared.clone(),
            receive_completions: completions.shared.clone(),
            sends: 128,
            receives: 0,
            pieces: 1,
            read_depth: READ_DEPTH.min(self.context.limits.read_depth),
            overcommit: false,
            caching: PhantomData,
        }
    }
}

impl<V: Uverbs, C: Caching> QueuePairBuilder<V, C> {
    /// Asks for at least `slots` send slots of 64 bytes, from 0 to [`Nic::max_sends`]. A request of
    /// one piece takes one.
    pub fn sends(self, slots: u32) -> Self {
        QueuePairBuilder { sends: slots, ..self }
    }

    /// Asks for room for at least `receives` receives, from 0 to [`Nic::max_receives`].
    pub fn receives(self, receives: u32) -> Self {
        QueuePairBuilder { receives, ..self }
    }

    /// Lets a receive scatter to up to `pieces` pieces. One, unless this is said.
    pub fn receive_pieces(self, pieces: u32) -> Self {
        QueuePairBuilder { pieces, ..self }
    }

    /// Sends the completions of receives to a completion queue of their own.
    pub fn receive_completions<N>(self, completions: &CompletionQueue<V, N>) -> Self {
        QueuePairBuilder { receive_completions: completions.shared.clone(), ..self }
    }

    /// Answers up to `depth` reads and atomics of the peer at once, at most what the NIC can. 16,
    /// or what the NIC can, unless this is said.
    pub fn read_depth(self, depth: u8) -> Self {
        QueuePairBuilder { read_depth: depth, ..self }
    }

    /// Lets more entries be outstanding than the completion queues hold. The engine then sees to it
    /// that they are not overrun: by unsignaled requests, say. When the queue pair fails, every
    /// entry completes.
    pub fn overcommit(self) -> Self {
        QueuePairBuilder { overcommit: true, ..self }
    }

    /// Rings through a write-combining register of the queue pair's own: a doorbell for one short
    /// entry carries it (BlueFlame). [`create`](Self::create) fails where the kernel has found that
    /// the machine cannot combine writes.
    pub fn write_combining(self) -> QueuePairBuilder<V, WriteCombining> {
        QueuePairBuilder {
            context: self.context,
            send_completions: self.send_completions,
            receive_completions: self.receive_completions,
            sends: self.sends,
            receives: self.receives,
            pieces: self.pieces,
            read_depth: self.read_depth,
            overcommit: self.overcommit,
            caching: PhantomData,
        }
    }

    /// Makes the queue pair.
    pub fn create(self) -> Result<QueuePair<Reset, V, C>, Error> {
        let sizes = self.sizes()?;
        let (sends, receives) = (u64::from(sizes.sends), u64::from(sizes.receives));
        let send = (&self.send_completions.committed, sends);
        let receive = (&self.receive_completions.committed, receives);
        Committed::commit_for(send, receive, self.overcommit, || self.create_committed(&sizes))
    }

    /// Checks what was asked for, and rounds it up to what the NIC can.
    fn sizes(&self) -> Result<Sizes, Error> {
        let limits = &self.context.limits;
        let most_pieces = limits.receive_entry_bytes / SEGMENT_BYTES as u32;
        Error::check_range("the number of send slots", self.sends, 0, limits.send_slots)?;
        Error::check_range("the number of receives", self.receives, 0, limits.receives)?;
        Error::check_range("the number of pieces of a receive", self.pieces, 1, most_pieces)?;
        Error::check_range("the read depth", self.read_depth.into(), 0, limits.read_depth.into())?;
        for completions in [&self.send_completions, &self.receive_completions] {
            if !Arc::ptr_eq(&completions.context, &self.context) {
                return Err(Error::Mismatched { what: "the completion queue and the NIC" });
            }
        }
        let power = |count: u32| if count == 0 { 0 } else { count.next_power_of_two() };
        let (mut sends, pieces) = (power(self.sends), power(self.pieces));
        if sends != 0 {
            sends = sends.max(LEAST_SLOTS as u32);
        }
        let mut receives = power(self.receives);
        if receives != 0 {
            // A receive ring fills at least a slot, so that the send ring after it starts at one.
            receives = receives.max(SLOT_SEGMENTS as u32 / pieces.min(SLOT_SEGMENTS as u32));
        }
        Ok(Sizes { sends, receives, pieces })
    }

    fn create_committed(&self, sizes: &Sizes) -> Result<QueuePair<Reset, V, C>, Error> {
        let context = &self.context;
        let packet_sequence = packet_sequence(context)?;
        let memory = context.allocate(sizes.bytes())?;
        let index = context.take_index()?;
        let resources = Arc::new(Resources {
            context: context.clone(),
            index,
            in_flight: InFlight {
                send: Outstanding::new(sizes.sends),
                receive: Outstanding::new(sizes.receives),
            },
            reusable: AtomicBool::new(true),
        });
        let loan = if C::WRITE_COMBINING {
            context.take_combining_register()?
        } else {
            context.uncached_register()
        };
        let register = loan.open()?;
        let record = context.take_record()?;
        let (handle, number) = self.call(sizes, &memory, &record, &loan, index)?;
        resources.reusable.store(false, Ordering::Relaxed);
        context.table.set(index, &resources.in_flight);
        let [receive_record, send_record] = record.words();
        let segments = memory.as_ptr().cast::<Segment>();
        let pair = Arc::new(Pair {
            context: context.clone(),
            handle,
            number,
            read_depth: self.read_depth,
            send_completions: self.send_completions.clone(),
            receive_completions: self.receive_completions.clone(),
            send_entries: sizes.sends.into(),
            receive_entries: sizes.receives.into(),
            parts: Some(Parts { memory, record, register: loan }),
            resources,
        });
        let in_flight = &pair.resources.in_flight;
        let max_message = context.port.max_message.into();
        let receive = ReceiveParts {
            segments,
            len: sizes.receives,
            pieces: sizes.pieces,
            max_message,
            outstanding: NonNull::from(&in_flight.receive),
            record: receive_record,
        };
        let send = SendParts {
            // SAFETY: M1: the send ring follows the receive ring in the memory of both.
            segments: unsafe { segments.byte_add(sizes.receive_bytes()) },
            len: sizes.sends,
            limits: Limits {
                segments: (context.limits.send_entry_bytes as usize / SEGMENT_BYTES)
                    .min(sizes.sends as usize * SLOT_SEGMENTS)
                    .clamp(LEAST_SLOTS * SLOT_SEGMENTS, MAX_SEGMENTS),
                max_message,
            },
            queue_pair: number,
            outstanding: NonNull::from(&in_flight.send),
            record: send_record,
            register,
        };
        // SAFETY: Q1: rings, record and ids are `pair`'s, which each queue holds with its ring. R1:
        // the register was opened with the length of a send register, from a page mapped as `C`.
        let (send_ring, receive_ring) = unsafe { (SendRing::new(send), ReceiveRing::new(receive)) };
        let receive = ReceiveQueue { ring: receive_ring, pair: pair.clone() };
        let send = SendQueue { ring: send_ring, pair, packet_sequence, peer: None };
        Ok(QueuePair { send, receive, state: PhantomData })
    }

    /// Has the kernel make the queue pair: its handle and its number.
    fn call(
        &self,
        sizes: &Sizes,
        memory: &V::Memory,
        record: &Record<V>,
        register: &SendRegister<V>,
        index: U24,
    ) -> Result<(u32, U24), Error> {
        let request = driver::CreateQp {
            buf_addr: memory.as_ptr().as_ptr() as u64,
            db_addr: record.address(),
            sq_wqe_count: sizes.sends,
            rq_wqe_count: sizes.receives,
            rq_wqe_shift: if sizes.receives == 0 { 0 } else { sizes.receive_shift() },
            flags: CreateQpFlags::new().with_uar_page_index(true),
            uidx: index.get(),
            bfreg_index: register.page_id(),
            ..FromZeros::new_zeroed()
        };
        let cap = QpCap {
            max_send_wr: sizes.sends,
            max_recv_wr: sizes.receives,
            max_send_sge: 1,
            max_recv_sge: if sizes.receives == 0 { 0 } else { sizes.pieces },
            max_inline_data: 0,
        };
        let mut response = CreateQpResp::new_zeroed();
        let (mut response_cap, mut number) = (QpCap::new_zeroed(), 0u32);
        use method::create_qp as attribute;
        let mut call = Call::new("CREATE_QP", method::qp::CREATE)
            .new_handle(attribute::HANDLE)
            .handle(attribute::PD_HANDLE, self.context.protection_domain)
            .handle(attribute::SEND_CQ_HANDLE, self.send_completions.handle)
            .handle(attribute::RECV_CQ_HANDLE, self.receive_completions.handle)
            .constant(attribute::USER_HANDLE, index.get().into())
            .input(attribute::CAP, &cap)
            .constant(attribute::TYPE, QpType::ReliableConnected.code().into())
            .output(attribute::RESP_CAP, &mut response_cap)
            .output(attribute::RESP_QP_NUM, &mut number)
            .input(UHW_IN, &request)
            .output(UHW_OUT, &mut response);
        if let Some(channel) = &self.send_completions.channel {
            call = call.descriptor(attribute::EVENT_FD, channel.asynchronous);
        }
        // SAFETY: K2: ring and record stay mapped until the queue pair is destroyed, or are kept.
        let answer = unsafe { call.make(&self.context.verbs) }?;
        Ok((answer.handle(attribute::HANDLE), U24::truncate(number)))
    }
}

/// The sizes of a queue pair's rings: each 0 or a power of two.
struct Sizes {
    sends: u32,
    receives: u32,
    pieces: u32,
}

impl Sizes {
    /// The binary logarithm of a receive's bytes.
    fn receive_shift(&self) -> u32 {
        (self.pieces * SEGMENT_BYTES as u32).ilog2()
    }

    fn receive_bytes(&self) -> usize {
        self.receives as usize * self.pieces as usize * SEGMENT_BYTES
    }

    fn bytes(&self) -> usize {
        self.receive_bytes() + self.sends as usize * SLOT_BYTES
    }
}

/// A packet sequence number that nobody can guess, so that a packet of an earlier connection is
/// not taken for one of this.
pub(super) fn packet_sequence<V: Uverbs>(context: &Context<V>) -> Result<u32, Error> {
    let random = context.verbs.random().map_err(context.refused("getrandom"))?;
    Ok(U24::truncate(random).get())
}

// The rings begin at a page, and the send ring after the receive ring at a slot.
static_assertions::const_assert_eq!(SLOT_BYTES % size_of::<cqe::Completion>(), 0);
static_assertions::const_assert_eq!(uar::SEND_HALF_BYTES % SLOT_BYTES, 0);
