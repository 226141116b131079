//! Model checking of the posting and polling code that ships.
//!
//! Loom runs each model in the orders in which its threads can meet, and lets a relaxed load see
//! every value that the memory model allows. What runs is the code of `doorbell::mlx5::ring`, with
//! the atomics, cells and locks of `doorbell_hal::sync` swapped for loom's; the NIC is a thread that
//! does what the hardware does, in its order (`nic`). Slots and ids are cells: an access that is
//! not ordered after the other side's is a failure, whatever it read.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p doorbell-loom-tests --release --target-dir target/loom
//! ```
//!
//! | module | what must hold | broken by the mutant | which shows as |
//! |---|---|---|---|
//! | `posting` | an entry's bytes are written before the doorbell record covers it | `NoFenceBeforePublish` | a race |
//! | `posting` | the record covers what the register announces, in both mappings of the register | `NoFenceBeforeRegister` | the NIC finds less |
//! | `posting` | a batch is announced once, by its last entry; a lone short entry travels in the register, byte for byte, also around the ring's end | both of the above | as above |
//! | `completing` | a completion is read after its owner byte said so | `NoFenceAfterOwner` | a race |
//! | `completing` | a completion's slot is written again after it was read, on every pass over the ring | `ConsumedBeforeRead` | a race |
//! | `completing` | a completion that no request asked for finds a whole queue pair, or none | `NoAcquireOfQueuePair` | a race |
//! | `freeing` | slots and ids are written again after the poller, and the NIC, have read them | `FreedBeforeRead`, `NoAcquireOfFreed` | a race |
//! | `freeing` | a signaled request frees the unsignaled ones before it; a drained ring starts over | `NoAcquireOfFreed` | a race |
//! | `freeing` | the entry that marks the end of a queue pair in error is nobody's completion, also when the ring starts over | `EndSeenAfterFreed` | a failure of no request |
//! | `receiving` | all of this for receives, which have a record and no register | `NoFenceBeforePublish`, `FreedBeforeRead`, `NoAcquireOfFreed` | a race |
//! | `arming` | poll until empty, arm, wait: no completion is slept through | `ArmedWithStaleIndex` | a deadlock |
//! | `arming` | every arm after an event has a new number | `EventNotCounted` | a deadlock |
//! | `arming` | the arm record is as new as the arm register | `NoFenceBeforeRegister` | the NIC finds less |
//! | `retiring` | a queue pair's index and entries are used again once its completions are past, in each of its completion queues | `ReclaimedWithoutLooking` | a completion of another |
//! | `retiring` | ids of a queue pair that the kernel would not destroy are freed once nothing finds them | `ClearedAfterRetired` | a race |
//!
//! The same, in `bnxt`, for `doorbell::bnxt::ring`:
//!
//! | module | what must hold | broken by the mutant | which shows as |
//! |---|---|---|---|
//! | `posting` | an entry and its message are written before the register announces them, also around the ring's end | `NoFenceBeforeRegister` | a race |
//! | `completing` | a completion is read after its toggle said so | `NoFenceAfterOwner` | a race |
//! | `completing` | a completion's slot is written again after it was read, on every pass over the ring | `NoFenceBeforeRegister` | a race |
//! | `completing` | a completion that no request asked for finds a whole queue pair, or none | `NoAcquireOfQueuePair` | a race |
//! | `freeing` | slots, messages and ids are written again after the poller, and the NIC, have read them, also where one completion reports many requests | `FreedBeforeRead`, `NoAcquireOfFreed` | a race |
//! | `receiving` | all of this for receives | `NoFenceBeforeRegister`, `FreedBeforeRead`, `NoAcquireOfFreed` | a race |
//! | `flushing` | what is posted to a queue pair that has failed is flushed, once and in order, and nothing that completed is | `NoAcquireOfPosted` | a race |
//! | `retiring` | a queue pair goes away while a part of its completion is not reported yet, or while it is flushed | `ReclaimedWithoutLooking`, `ClearedAfterRetired` | a completion of another; a race |
//!
//! For each mutant there is a test that fails if loom finds nothing, or something else (`check`).
//!
//! The models are small, so that none has to bound the number of preemptions. A thread that could
//! wait for another tries a few times instead, and what is left is done when the threads have ended.
//! Only in `arming`, where waiting is the matter, do threads sleep.
//!
//! What loom does not look at:
//! - some orders. It leaves out those that it takes for equal to others, and looks no further back
//!   than the last access of a word to see that. So where a model has a point to get to, it checks
//!   that some order got there, and threads that read are started after those that write.
//! - a store that is seen before an earlier load of its thread (load buffering);
//! - the buffers of a write-combining mapping: a store to a register is one event here;
//! - the domains of AArch64's barriers.
#![cfg(all(loom, test))]

mod arming;
mod bnxt;
mod bus;
mod check;
mod completing;
mod freeing;
mod memory;
mod nic;
mod posting;
mod receiving;
mod request;
mod retiring;
