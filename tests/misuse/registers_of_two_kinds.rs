//! How a register is mapped is part of its queue pair's type: queues of two kinds do not join.

use doorbell::mlx5::{QueuePair, ReceiveQueue, SendQueue};
use doorbell::state::Rts;
use doorbell_hal::mmio::{Uncached, WriteCombining};
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(
    send: SendQueue<V, WriteCombining>,
    receive: ReceiveQueue<V>,
) -> QueuePair<Rts, V, Uncached> {
    QueuePair::join(send, receive).unwrap()
}

fn main() {}
