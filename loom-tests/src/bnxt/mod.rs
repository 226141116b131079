//! The same for the rings of the BCM57608: `doorbell::bnxt::ring`. Its doorbell is the register store
//! itself, with no record beside it; its completions count, and what a queue pair that has failed has
//! outstanding is flushed by the poller.

mod arming;
mod completing;
mod flushing;
mod freeing;
mod memory;
mod nic;
mod posting;
mod receiving;
mod retiring;
