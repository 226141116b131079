//! Work entries of the BCM57608: each line of `posted_bnxt.txt` is a request or a receive that
//! libbnxt_re posted on a stock kernel (`lab/run posted`), and the entry as the virtual NIC fetched it.
//! doorbell posts the same, and the same virtual NIC has to fetch the same bytes. There is no difference.

use crate::golden::Case;
use crate::posted::{piece, post};
use doorbell::bnxt::{Connection, Nic, PeerRights};
use doorbell::family::{ReceiveQueue, SendQueue};
use doorbell::wr::{self, Inline, LocalSlice};
use doorbell_model::VirtualNetxtreme;
use doorbell_model::netxtreme::FetchedFrom;
use doorbell_model::pci::WatchedNetxtreme;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const TEXT: &str = include_str!("../golden/posted_bnxt.txt");

/// A NIC that says what it fetches.
struct Bench {
    nic: Nic<VirtualNetxtreme>,
    control: WatchedNetxtreme,
}

impl Bench {
    fn new() -> Self {
        let function = VirtualNetxtreme::builder().open();
        let control = function.watch();
        let nic = Nic::open(function).unwrap();
        control.with(|nic| nic.record());
        Bench { nic, control }
    }

    /// The entry that is fetched from the first place of a ring for a line; none if there is no such
    /// way to say it.
    fn entry(&self, case: &Case, way: usize) -> Option<Vec<u8>> {
        let completions = self.nic.completion_queue(64).unwrap();
        let builder = self.nic.queue_pair(&completions).sends(8).receives(8);
        let pair = builder.receive_pieces(3).create().unwrap();
        let own = pair.endpoint();
        let pair = pair.connect(PeerRights::WRITE, &own, &Connection::default()).unwrap();
        let (mut sends, mut receives) = pair.split();
        let from = if case.kind == "receive" {
            if way > 0 {
                return None;
            }
            let pieces: Vec<LocalSlice> =
                (0..case.get("pieces")).map(|at| piece(case, at)).collect();
            ReceiveQueue::post(&mut receives, wr::receive(pieces.as_slice())).unwrap();
            ReceiveQueue::ring(&mut receives);
            // A receive is fetched when a message comes for it.
            SendQueue::post(&mut sends, wr::send(Inline([0; 8])).signaled()).unwrap();
            FetchedFrom::Receives
        } else {
            // What is inline is copied in one way, however long.
            if way > 0 && case.find("inline").is_some() || !post(&mut sends, case, way) {
                return None;
            }
            FetchedFrom::Sends
        };
        SendQueue::ring(&mut sends);
        let start = Instant::now();
        loop {
            let fetched = self.control.with(|nic| nic.take_recorded());
            if let Some(entry) = fetched.into_iter().find(|entry| entry.ring == from) {
                return Some(entry.bytes);
            }
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "nothing was fetched: {}",
                case.line
            );
        }
    }
}

#[test]
fn doorbell_posts_the_bytes_that_libbnxt_re_posts() {
    let bench = Bench::new();
    let mut kinds = BTreeSet::new();
    let mut entries = 0;
    for line in TEXT.lines() {
        let case = Case::parse(line).unwrap_or_else(|error| panic!("{error}"));
        kinds.insert(case.kind);
        for way in 0.. {
            let Some(mut entry) = bench.entry(&case, way) else { break };
            if case.kind == "receive" {
                // The rest of its place is nobody's.
                entry.truncate(16 * usize::from(entry[2]));
            }
            assert_eq!(entry, case.bytes, "way {way} of {line}");
            entries += 1;
        }
    }
    // Five operations and receives; and requests that vanished are noticed.
    assert_eq!(kinds.len(), 6, "{kinds:?}");
    assert_eq!((TEXT.lines().count(), entries), (115, 135));
}
