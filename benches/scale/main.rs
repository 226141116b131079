//! Many objects on one virtual ConnectX, and very many posts.
//!
//! `cargo bench --bench scale -- [PAIRS [REGIONS [POSTS]]]` makes so many queue pairs (65,536), then so
//! many regions (1,000,000), then posts so many requests (10,000,000) to one queue pair. It prints what an
//! object takes: memory (of the whole process, so the model's share, too), and time; of the first quarter
//! of them and of the last, as what is linear takes the same. A poll is timed with one queue pair and with
//! all. It fails where something is lost, out of order, or refused.

use doorbell::completion::Completion;
use doorbell::mlx5::{
    CompletionQueue, Connection, Nic, Order, PeerRights, QueuePair, Region, access,
};
use doorbell::state::Rts;
use doorbell::wr::{self, Inline};
use doorbell_model::VirtualConnectx;
use std::error::Error;
use std::ptr::NonNull;
use std::time::Instant;

type Pair = QueuePair<Rts, VirtualConnectx>;
type Completions = CompletionQueue<VirtualConnectx>;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .map(|argument| argument.parse().map_err(|_| format!("{argument} is no number")))
        .collect::<Result<_, _>>()?;
    let number = |place: usize, usual| numbers.get(place).copied().unwrap_or(usual);
    pairs(number(0, 65_536) as usize)?;
    regions(number(1, 1_000_000) as usize)?;
    soak(number(2, 10_000_000))
}

/// Bytes of memory that the process has.
fn memory() -> Result<f64, Box<dyn Error>> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split(' ').nth(1).ok_or("no resident pages")?;
    Ok(resident.parse::<f64>()? * rustix::param::page_size() as f64)
}

/// Makes `count` things with `make`: they, and the nanoseconds of one of the first quarter and of the
/// last.
fn timed<T, E>(
    count: usize,
    mut make: impl FnMut(usize) -> Result<T, E>,
) -> Result<(Vec<T>, f64, f64), E> {
    let (mut things, mut marks) = (Vec::with_capacity(count), Vec::new());
    for number in 0..count {
        if number % (count / 4).max(1) == 0 {
            marks.push(Instant::now());
        }
        things.push(make(number)?);
    }
    let end = Instant::now();
    let quarter = (count / 4).max(1) as f64;
    let first = marks.get(1).unwrap_or(&end).duration_since(marks[0]).as_nanos() as f64 / quarter;
    let last = *marks.get(3).unwrap_or(&marks[0]);
    Ok((things, first, end.duration_since(last).as_nanos() as f64 / quarter))
}

/// What is said of `count` things that were made.
fn print(what: &str, count: usize, bytes: f64, [first, last, drop]: [f64; 3]) {
    println!(
        "{count} {what}: {:.0} bytes each; made in {first:.0} ns, the last quarter in {last:.0} ns; \
         gone in {drop:.0} ns",
        bytes / count as f64
    );
}

/// The next completion's id.
fn completed(completions: &mut Completions) -> Result<u64, String> {
    loop {
        match completions.poll() {
            Some(Completion::Sent(sent)) => return Ok(sent.id),
            Some(other) => return Err(format!("{other:?}")),
            None => std::thread::yield_now(),
        }
    }
}

/// Queue pairs that are connected to themselves, with the smallest rings.
fn pairs(count: usize) -> Result<(), Box<dyn Error>> {
    let nic = Nic::open(VirtualConnectx::builder().open())?;
    let region = nic.region::<access::RemoteWrite>(4096, Order::InOrder)?;
    // Rings of four slots and four receives are the smallest.
    let mut completions = nic.completion_queue(8 * count as u32 + 1)?;
    let before = memory()?;
    let (mut pairs, first, last) = timed(count, |_| {
        let pair = nic.queue_pair(&completions).sends(4).receives(1).create()?;
        let itself = pair.endpoint();
        Ok::<Pair, Box<dyn Error>>(pair.connect(
            PeerRights::WRITE,
            &itself,
            &Connection::default(),
        )?)
    })?;
    // A ring is there once it was written.
    let one = poll(&mut pairs[..1], &mut completions, &region)?;
    let all = poll(&mut pairs, &mut completions, &region)?;
    let bytes = memory()? - before;
    let start = Instant::now();
    drop(pairs);
    let gone = start.elapsed().as_nanos() as f64 / count as f64;
    print("queue pairs", count, bytes, [first, last, gone]);
    println!("a poll: {one:.1} ns with completions of one of them, {all:.1} ns with all's");
    Ok(())
}

/// Has each queue pair write once, over and over, until there are enough completions to be timed:
/// nanoseconds of a poll.
fn poll(
    pairs: &mut [Pair],
    completions: &mut Completions,
    region: &Region<access::RemoteWrite, VirtualConnectx>,
) -> Result<f64, Box<dyn Error>> {
    const POLLS: usize = 4096;
    let (local, remote) = (region.slice(0..8)?, region.remote().slice(8..16)?);
    let (mut polled, mut time) = (0, 0);
    while polled < POLLS {
        // No more than a small ring holds.
        let posts = if pairs.len() == 1 { 4 } else { 1 };
        for (number, pair) in pairs.iter_mut().enumerate() {
            for _ in 0..posts {
                pair.sends().post(wr::write(local, remote)?.id(number as u64).signaled())?;
            }
            pair.sends().ring();
        }
        let expected = posts * pairs.len();
        // The NIC has done all when it has done the last; what is timed is then never empty.
        let mut ids = Vec::with_capacity(expected);
        ids.push(completed(completions)?);
        std::thread::sleep(std::time::Duration::from_micros(expected as u64 * 20));
        let start = Instant::now();
        while let Some(Completion::Sent(sent)) = completions.poll() {
            ids.push(sent.id);
        }
        time += start.elapsed().as_nanos();
        polled += ids.len() - 1;
        while ids.len() < expected {
            ids.push(completed(completions)?);
        }
        ids.sort_unstable();
        let each = (0..pairs.len() as u64).flat_map(|number| std::iter::repeat_n(number, posts));
        if !ids.into_iter().eq(each) {
            return Err("a completion is missing, or there twice".into());
        }
    }
    Ok(time as f64 / polled as f64)
}

/// Regions of the same page.
fn regions(count: usize) -> Result<(), Box<dyn Error>> {
    let nic = Nic::open(VirtualConnectx::builder().open())?;
    let page = Box::leak(Box::new([0u64; 512]));
    let start = NonNull::from(page).cast::<u8>();
    let before = memory()?;
    let (regions, first, last) = timed(count, |_| {
        // SAFETY: M1: the page is never freed, and used by nothing else.
        unsafe { nic.region_at::<access::RemoteWrite>(start, 4096, Order::InOrder) }
    })?;
    let bytes = memory()? - before;
    let start = Instant::now();
    drop(regions);
    let gone = start.elapsed().as_nanos() as f64 / count as f64;
    print("regions", count, bytes, [first, last, gone]);
    Ok(())
}

/// Posts `count` writes of 8 inline bytes, a few hundred under way at any time, and looks at each
/// completion's id: indexes of 16 bits and counters of 32 wrap, if there are enough.
fn soak(count: u64) -> Result<(), Box<dyn Error>> {
    const DEPTH: u64 = 512;
    let nic = Nic::open(VirtualConnectx::builder().open())?;
    let region = nic.region::<access::RemoteWrite>(4096, Order::InOrder)?;
    let mut completions = nic.completion_queue(2 * DEPTH as u32)?;
    let pair = nic.queue_pair(&completions).sends(DEPTH as u32).create()?;
    let itself = pair.endpoint();
    let mut pair: Pair = pair.connect(PeerRights::WRITE, &itself, &Connection::default())?;
    let remote = region.remote().slice(0..8)?;
    let (mut posted, mut done) = (0, 0);
    let start = Instant::now();
    while done < count {
        while posted < count && posted - done < DEPTH {
            let write = wr::write(Inline(posted.to_ne_bytes()), remote)?.id(posted);
            // One in 16 completes, and says so for those before it.
            match posted % 16 == 15 || posted + 1 == count {
                true => pair.sends().post(write.signaled())?,
                false => pair.sends().post(write)?,
            }
            posted += 1;
            if posted % 16 == 0 || posted == count {
                pair.sends().ring();
            }
        }
        let id = completed(&mut completions)?;
        let expected = (done + 15).min(count - 1);
        if id != expected {
            return Err(format!("post {expected} was to complete, and {id} did").into());
        }
        done = id + 1;
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    let mut last = [0; 8];
    region.read_at(0, &mut last)?;
    if u64::from_ne_bytes(last) != count - 1 {
        return Err(format!("the last write left {last:?}").into());
    }
    println!("{count} posts, each in its turn: {:.2} million a second", rate / 1e6);
    Ok(())
}
