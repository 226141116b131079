//! The reliable-connected transport (IBTA vol. 1, chapter 9; RoCE v2: annex A17).
//!
//! A [`Connection`] is one end: a requester that turns work requests into packets and
//! acknowledgements into completions, and a responder that executes the peer's. It
//! knows no rings and no wire. Its [`Host`] gives it work requests and receives, takes completions
//! and packets, and lends it the device's memory. Time is a number of nanoseconds that the caller
//! hands in. Nothing is random: the same calls give the same packets.
//!
//! How an owner drives a connection:
//!
//! ```text
//! a packet came in for this queue pair   connection.receive(now, &packet, host)
//! after a batch of packets, a doorbell,  while connection.advance(now, host) == Progress::More {}
//!   or at next_deadline()                  (or come back after other queue pairs had their turn)
//! the queue pair goes to Error           connection.fail(host)
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `connection` | [`Connection`]: both halves, and what they are told at the changes of state |
//! | `requester` | work requests to packets, answers to completions |
//! | `taken` | a work request that was taken: its PSNs, and its packets |
//! | `responder` | the peer's packets to memory, receives and answers |
//! | `answers` | the answers that a responder has still to send |
//! | `psn` | [`Psn`]: 24-bit packet sequence numbers |
//! | `packet` | [`Packet`], [`Opcode`], the extension headers |
//! | `wire` | packets as bytes |
//! | `host` | [`Host`], [`Request`], [`Receive`], [`Status`] |
//! | `window` | how many packets may be on their way |
//! | `timers` | the timeout codes of work and acknowledgement |

mod answers;
mod connection;
mod host;
mod packet;
mod psn;
mod requester;
mod responder;
mod taken;
mod timers;
mod window;
mod wire;

pub use connection::{Attributes, ByteOrder, Connection, Mtu, Progress, SendAttributes};
pub use host::{
    Data, Failure, Host, Operation, Receive, ReceiveCompletion, ReceiveKind, Remote, Request,
    Status,
};
pub use packet::{Aeth, AtomicEth, Headers, Layout, NakCode, Opcode, Packet, Reth, Syndrome};
pub use psn::Psn;
pub use timers::{ack_timeout, rnr_timer};
pub use wire::{MAX_PACKET, Malformed};
