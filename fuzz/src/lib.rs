//! Fuzz targets: bytes that are not trusted, given to doorbell's drivers and to its virtual NICs.
//!
//! A target is a function of bytes that panics when something does not hold. The same function runs
//! under libFuzzer (`fuzz_targets/`, `cargo fuzz`) and under plain `cargo test`, which replays the
//! corpus and a fixed number of random inputs (`tests/replay.rs`). README.md says how.
//!
//! | target | gives | must hold |
//! |---|---|---|
//! | [`completion`] | bytes in a completion ring | a completion, none, or an error value, as the specification says; no ring has more room than slots |
//! | [`bnxt_completion`] | the same for a BCM57608, whose completions count | the same; what has failed is flushed, each entry once |
//! | [`bnxt_answers`] | firmware answers and events to the driver of a BCM57608 | an error or a working object; nothing is left behind, and nothing is waited for without a bound |
//! | [`kernel_answers`] | errors and answers of the verbs calls | an error or a working object; nothing is left behind |
//! | [`event_records`] | records of event files | events, or an error; never more than asked for |
//! | [`endpoint`] | a peer's endpoint and slices | an error that names the field, or a value that round-trips |
//! | [`work_entries`] | ring memory and register stores of a virtual NIC | it comes to rest, and touches no memory but what its keys and rights allow |
//! | [`verbs_ioctl`] | verbs commands to the virtual NIC's kernel | an error that changes nothing, or an object; nothing is left when the file closes |
//! | [`firmware`] | firmware commands and register stores of a PCI function | every command is answered; nothing is left when the driver lets go |
//! | [`netxtreme_firmware`] | the same for a BCM57608: requests, commands of its RoCE engine, doorbells | the same |
//! | [`packet_bytes`] | bytes as a packet | an error, or a packet that round-trips |
//! | [`frames`] | bytes as IP packets, to a connected NIC | an error, or a packet of RoCE v2 that round-trips; and as for `work_entries` |
//! | [`packets`] | packets to a connected queue pair | as for `work_entries` |
//! | [`operations`] | calls of an engine on two virtual NICs | every request completes once, in order, having moved exactly its bytes |

pub mod bnxt_answers;
pub mod bnxt_completion;
pub mod completion;
pub mod endpoint;
pub mod event_records;
pub mod firmware;
pub mod frames;
pub mod input;
pub mod kernel_answers;
pub mod netxtreme_firmware;
pub mod operations;
pub mod packet_bytes;
pub mod packets;
pub mod replay;
pub mod verbs_ioctl;
pub mod work_entries;

mod arena;
mod audit;
mod bench;
mod bnxt_meddler;
#[cfg(test)]
mod bnxt_seeds;
mod meddler;
mod reference;
#[cfg(test)]
mod seeds;

/// A target: panics if its bytes make something happen that must not.
pub type Target = fn(&[u8]);

/// Every target, by the name of its program and of its corpus.
pub const TARGETS: [(&str, Target); 14] = [
    ("completion", completion::run),
    ("bnxt_completion", bnxt_completion::run),
    ("bnxt_answers", bnxt_answers::run),
    ("kernel_answers", kernel_answers::run),
    ("event_records", event_records::run),
    ("endpoint", endpoint::run),
    ("work_entries", work_entries::run),
    ("verbs_ioctl", verbs_ioctl::run),
    ("firmware", firmware::run),
    ("netxtreme_firmware", netxtreme_firmware::run),
    ("packet_bytes", packet_bytes::run),
    ("frames", frames::run),
    ("packets", packets::run),
    ("operations", operations::run),
];

/// Makes the program of a target: a fuzzer under `cargo fuzz`, else one that replays the files that
/// it is given.
#[macro_export]
macro_rules! target {
    ($run:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $run(bytes));

        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::replay::arguments($run)
        }
    };
}
