//! Work entries: each line of `posted.txt` is a request that libmlx5 posted, by `ibv_post_send` or by
//! the builder of requests (`ibv_wr_*`), and the entry that it wrote. doorbell posts the same request,
//! and the entry in its ring has to be the same, but for the queue pair's number.
//!
//! One more difference is intended. A piece of 2^31 bytes has a byte count of 0, because the highest bit
//! says that the bytes are inline; libmlx5 writes 0x8000_0000 as it was given it, which is an inline
//! piece of no bytes, so nobody can have used it to send that much.

use crate::golden::Case;
use doorbell::family::SendQueue;
use doorbell::mlx5::{CompletionQueue, Connection, Nic, PeerRights};
use doorbell::wr::{self, Inline, LocalSlice, Nothing, RemoteSlice};
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::Control;
use std::collections::BTreeSet;

const TEXT: &str = include_str!("../golden/posted.txt");

/// A NIC on which nothing happens but posts.
struct Bench {
    nic: Nic<VirtualConnectx>,
    completions: CompletionQueue<VirtualConnectx>,
    control: Control,
}

impl Bench {
    fn new() -> Self {
        let file = VirtualConnectx::builder().network(&Network::stepped(1)).open();
        let control = file.control();
        let nic = Nic::open(file).unwrap();
        let completions = nic.completion_queue(64).unwrap();
        Bench { nic, completions, control }
    }

    /// The entry that doorbell writes into slot 0 for a request, and the number of its queue pair;
    /// none if there is no such way to say it.
    fn entry(&self, case: &Case, way: usize) -> Option<(u32, Vec<u8>)> {
        let pair = self.nic.queue_pair(&self.completions).sends(64).overcommit().create().unwrap();
        let own = pair.endpoint();
        let mut pair = pair.connect(PeerRights::WRITE, &own, &Connection::default()).unwrap();
        let number = pair.number();
        post(pair.sends(), case, way).then(|| {
            (number, self.control.send_entry(number, 0).expect("the queue pair has a ring"))
        })
    }
}

/// Piece `at` of a line.
pub fn piece(case: &Case, at: u32) -> LocalSlice {
    let get = |name: &str| case.get::<u64>(&format!("{name}{at}"));
    // SAFETY: M2: no region has this key, so no NIC looks there.
    unsafe { LocalSlice::from_parts(get("addr"), get("len") as u32, get("lkey") as u32) }
}

/// Runs `$then` with the pieces of a line as `$data`: for way 0 as what is known when it runs, for way
/// 1 as what is known when it is compiled. Answers from the function if there is no such way.
macro_rules! pieces {
    ($case:ident, $way:ident, $data:ident => $then:expr) => {{
        let piece = |at: u32| piece($case, at);
        match ($case.get::<u32>("pieces"), $way) {
            (0, 0) => {
                let $data: &[LocalSlice] = &[];
                $then
            }
            (0, 1) => {
                let $data = Nothing;
                $then
            }
            (1, 0) => {
                let $data = piece(0);
                $then
            }
            (count, 0) => {
                let pieces: Vec<LocalSlice> = (0..count).map(piece).collect();
                let $data = pieces.as_slice();
                $then
            }
            (2, 1) => {
                let $data = [0, 1].map(piece);
                $then
            }
            (3, 1) => {
                let $data = [0, 1, 2].map(piece);
                $then
            }
            _ => return false,
        }
    }};
}

/// As `pieces`, for data that may be inline.
macro_rules! data {
    ($case:ident, $way:ident, $data:ident => $then:expr) => {
        data!($case, $way, $data => $then; 1 8 11 12 13 16 27 28 29 44 45 64 200)
    };
    ($case:ident, $way:ident, $data:ident => $then:expr; $($length:literal)*) => {{
        let Some(length) = $case.find("inline") else {
            return pieces!($case, $way, $data => $then);
        };
        let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + 1) as u8).collect();
        match ($way, length) {
            (0, _) => {
                let $data = Inline(bytes.as_slice());
                $then
            }
            $((1, $length) => {
                let bytes: [u8; $length] = bytes.as_slice().try_into().unwrap();
                let $data = Inline(bytes);
                $then
            })*
            (1, _) => panic!("{length} inline bytes are not among the lengths tried"),
            _ => return false,
        }
    }};
}

/// Posts a request with the flags of a line, and answers `true`. Each post is a function of its own:
/// a debug build would give every one of them its place in one frame.
macro_rules! flagged {
    ($queue:ident, $case:ident, $request:expr) => {{
        let request = $request;
        match ($case.flag("signaled"), $case.flag("fenced")) {
            (false, false) => apart(|| $queue.post(request).unwrap()),
            (true, false) => apart(|| $queue.post(request.signaled()).unwrap()),
            (false, true) => apart(|| $queue.post(request.fenced()).unwrap()),
            (true, true) => apart(|| $queue.post(request.signaled().fenced()).unwrap()),
        }
        true
    }};
}

/// Runs `with` in a frame of its own.
#[inline(never)]
fn apart<R>(with: impl FnOnce() -> R) -> R {
    with()
}

/// As `flagged`, for operations that complete a receive.
macro_rules! solicitable {
    ($queue:ident, $case:ident, $request:expr) => {
        match $case.flag("solicited") {
            false => flagged!($queue, $case, $request),
            true => flagged!($queue, $case, $request.solicited()),
        }
    };
}

/// Posts what a line says, in the way asked for. Answers whether there is such a way.
pub fn post<Q: SendQueue>(queue: &mut Q, case: &Case, way: usize) -> bool {
    let remote = |len| RemoteSlice::new(case.get("raddr"), len, case.get("rkey"));
    let target = || remote(u64::MAX);
    let value = || case.get::<u32>("value");
    match case.kind {
        "write" => {
            data!(case, way, data => flagged!(queue, case, wr::write(data, target()).unwrap()))
        }
        "write_immediate" => data!(case, way, data => {
            solicitable!(queue, case, wr::write_immediate(data, target(), value()).unwrap())
        }),
        "read" => {
            pieces!(case, way, data => flagged!(queue, case, wr::read(data, target()).unwrap()))
        }
        "send" => data!(case, way, data => solicitable!(queue, case, wr::send(data))),
        "send_immediate" => data!(case, way, data => {
            solicitable!(queue, case, wr::send_immediate(data, value()))
        }),
        "send_invalidate" => data!(case, way, data => {
            solicitable!(queue, case, wr::send_invalidate(data, value()))
        }),
        "fetch_add" | "compare_swap" => {
            if way > 0 {
                return false;
            }
            let old = piece(case, 0);
            match (case.get("add"), case.find("swap")) {
                (add, None) => {
                    flagged!(queue, case, wr::fetch_add(old, remote(8), add).unwrap())
                }
                (compare, Some(swap)) => {
                    flagged!(queue, case, wr::compare_swap(old, remote(8), compare, swap).unwrap())
                }
            }
        }
        other => panic!("a line posts {other}, which nobody posts here"),
    }
}

/// What libmlx5 wrote, but for the intended differences: the number of the queue pair, and the byte
/// count of a piece of 2^31 bytes.
fn expected(case: &Case, number: u32) -> Vec<u8> {
    let mut bytes = case.bytes.clone();
    let theirs: u32 = case.get("qpn");
    assert_eq!(bytes[4..7], theirs.to_be_bytes()[1..], "{}", case.line);
    bytes[4..7].copy_from_slice(&number.to_be_bytes()[1..]);
    if case.find("len0") == Some(1 << 31) {
        let count = bytes.len() - 16;
        assert_eq!(bytes[count..count + 4], [0x80, 0, 0, 0], "{}", case.line);
        bytes[count] = 0;
    }
    bytes
}

#[test]
fn doorbell_posts_the_bytes_that_libmlx5_posts() {
    let bench = Bench::new();
    let mut kinds = BTreeSet::new();
    let mut entries = 0;
    for line in TEXT.lines() {
        let case = Case::parse(line).unwrap_or_else(|error| panic!("{error}"));
        kinds.insert((case.kind, case.get::<u8>("builder")));
        for way in 0.. {
            let Some((number, entry)) = bench.entry(&case, way) else { break };
            assert_eq!(entry, expected(&case, number), "way {way} of {line}");
            entries += 1;
        }
    }
    // Eight operations, each by both of libmlx5's ways; and requests that vanished are noticed.
    assert_eq!(kinds.len(), 16, "{kinds:?}");
    assert_eq!((TEXT.lines().count(), entries), (298, 476));
}

#[test]
fn libmlx5_posts_the_same_bytes_by_both_of_its_ways() {
    let mut entries = BTreeSet::new();
    for line in TEXT.lines() {
        entries.insert(line.replace("builder=0x1", "builder=0x0"));
    }
    assert_eq!(entries.len() * 2, TEXT.lines().count());
}
