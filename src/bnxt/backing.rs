//! The backing store: memory that the firmware keeps its contexts in, from the firmware's own list of
//! what there is.

use super::abi::firmware::Request;
use super::abi::firmware::context::{
    CFG_ALL_DONE, FuncBackingStoreCfgV2Request, FuncBackingStoreQcapsV2Answer,
    FuncBackingStoreQcapsV2Request, context_flags, context_type,
};
use super::abi::page::PAGE_BYTES;
use super::firmware::Channel;
use super::memory::{self, PageTable, Purpose};
use crate::error::Error;
use alloc::string::ToString;
use alloc::vec::Vec;
use doorbell_hal::pci::PciFunction;

/// Types that Linux' driver knows end here: traces of the firmware follow, which need no memory.
const END: u16 = 0x1e;
/// Queue pairs to hold, beyond those that the firmware keeps, where it states no limits of its own.
const MOST_QUEUE_PAIRS: u32 = 1 << 16;
/// Shared receive queues to hold, likewise.
const MOST_SHARED_RECEIVE_QUEUES: u32 = 8192;
/// Regions to hold, likewise.
const MOST_REGIONS: u32 = 1 << 18;
/// Address vectors to hold, likewise.
const MOST_ADDRESS_VECTORS: u32 = 1 << 17;
/// The most memory of one instance of a type: what two levels of tables lead to.
const MOST_BYTES: u64 = 512 * 512 * PAGE_BYTES as u64;

/// What the firmware says about a type of context.
struct Kind {
    answer: FuncBackingStoreQcapsV2Answer,
}

impl Kind {
    fn number(&self) -> u16 {
        self.answer.kind.get()
    }

    fn most(&self) -> u32 {
        self.answer.max_num_entries.get()
    }

    fn least(&self) -> u32 {
        self.answer.min_num_entries.get()
    }

    /// The part `index` of the entries, if the firmware says so.
    fn split(&self, index: usize) -> u32 {
        let counts = index < usize::from(self.answer.subtype_valid_cnt);
        self.answer.split_entry.get(index).filter(|_| counts).map_or(0, |entry| entry.get())
    }

    /// `entries` in the firmware's multiples, within its bounds.
    fn clamp(&self, entries: u64) -> u64 {
        let multiple = u64::from(self.answer.entry_multiple).max(1);
        let (least, most) = (self.least().into(), u64::from(self.most()).max(self.least().into()));
        entries.next_multiple_of(multiple).clamp(least, most)
    }
}

/// How many entries of which type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Queue pairs that the driver can make.
    pub(super) queue_pairs: u32,
    /// Regions that the driver can register.
    pub(super) regions: u32,
    /// Completion queues that the driver can make.
    pub(super) completion_queues: u32,
}

/// The backing store's memory, kept until the firmware has forgotten it: the function is unregistered,
/// and its bus mastering off.
pub(super) struct BackingStore<F: PciFunction> {
    contexts: Vec<(F::Memory, PageTable<F>)>,
}

/// The entries that a type takes, and the parts of them to tell the firmware.
struct Share {
    entries: u64,
    splits: Option<[u32; 4]>,
}

impl<F: PciFunction> BackingStore<F> {
    pub(super) fn new() -> Self {
        BackingStore { contexts: Vec::new() }
    }

    /// Asks what the firmware needs, allocates it and hands it over. `limits` says whether the
    /// firmware states limits of its own.
    pub(super) fn give(
        &mut self,
        function: &F,
        channel: &mut Channel<F>,
        bar: &F::Bar,
        limits: bool,
    ) -> Result<Plan, Error> {
        let kinds = list(function, channel, bar)?;
        let (shares, plan) = plan(&kinds, limits);
        let last = kinds.iter().zip(&shares).rposition(|(_, share)| share.entries != 0);
        for (index, (kind, share)) in kinds.iter().zip(&shares).enumerate() {
            if share.entries == 0 {
                continue;
            }
            let instances = instances(kind);
            let last_instance = instances.last().copied();
            for instance in instances {
                let done = Some(index) == last && Some(instance) == last_instance;
                let (memory, table) = prepare(function, kind, share)?;
                let request = request(kind, share, instance, &table, done);
                // Held before the firmware knows it, whatever it answers.
                self.contexts.push((memory, table));
                channel.request(function, bar, request)?;
            }
        }
        Ok(plan)
    }
}

/// Asks for each type that there is. Only those that this driver gives memory for are kept.
fn list<F: PciFunction>(
    function: &F,
    channel: &mut Channel<F>,
    bar: &F::Bar,
) -> Result<Vec<Kind>, Error> {
    let mut kinds = Vec::new();
    let mut next = 0;
    while next < END {
        let mut request = FuncBackingStoreQcapsV2Request::new();
        request.kind = next.into();
        let mut answer = channel.request(function, bar, request)?;
        answer.kind = next.into();
        let after = answer.next_valid_type.get();
        if answer.flags.get() & context_flags::TYPE_VALID != 0 && is_given(next) {
            kinds.push(Kind { answer });
        }
        if after <= next {
            // A list that does not go up never ends.
            return Err(Error::Answer {
                device: function.bus_address().to_string(),
                call: "HWRM_FUNC_BACKING_STORE_QCAPS_V2",
                wrong: "a next type that does not follow:",
                value: after.into(),
            });
        }
        next = after;
    }
    Ok(kinds)
}

/// Whether this driver gives memory for a type.
fn is_given(kind: u16) -> bool {
    use context_type::*;
    [QP, SRQ, CQ, VNIC, STAT, SP_TQM_RING, FP_TQM_RING, MRAV, TIM].contains(&kind)
}

/// The numbers of a type's instances.
fn instances(kind: &Kind) -> Vec<u16> {
    let map = kind.answer.instance_bit_map.get();
    if map == 0 {
        return alloc::vec![0];
    }
    (0..u32::BITS as u16).filter(|bit| map >> bit & 1 == 1).collect()
}

/// How many entries each of `kinds` takes: Linux' rule, so that the firmware meets what it knows.
fn plan(kinds: &[Kind], limits: bool) -> (Vec<Share>, Plan) {
    let find = |number: u16| kinds.iter().find(|kind| kind.number() == number);
    let most = |number| find(number).map_or(0, Kind::most);
    let split = |number, index| find(number).map_or(0, |kind| kind.split(index));
    let (l2, qp1, fast) =
        (split(context_type::QP, 0), split(context_type::QP, 1), split(context_type::QP, 2));
    let beyond = most(context_type::QP).saturating_sub(l2).saturating_sub(qp1);
    let queue_pairs =
        if limits { beyond } else { beyond.min(MOST_QUEUE_PAIRS).saturating_add(fast) };
    let srq_l2 = split(context_type::SRQ, 0);
    let srqs = most(context_type::SRQ).saturating_sub(srq_l2);
    let srqs = if limits { srqs } else { srqs.min(MOST_SHARED_RECEIVE_QUEUES) };
    let mrav = most(context_type::MRAV);
    let one_count = find(context_type::MRAV).is_some_and(|kind| kind.answer.subtype_valid_cnt == 1);
    let (regions, address_vectors) = if limits && one_count {
        let vectors = split(context_type::MRAV, 0).min(mrav);
        (mrav - vectors, vectors)
    } else {
        let regions = (mrav / 2).min(MOST_REGIONS);
        let vectors = regions.min(MOST_ADDRESS_VECTORS);
        let said = split(context_type::MRAV, 0);
        (regions, if said == 0 || said > vectors { vectors } else { said })
    };
    let all = |kind: &Kind| -> (u64, Option<[u32; 4]>) {
        let [l2, qp1, queue_pairs] = [l2, qp1, queue_pairs].map(u64::from);
        match kind.number() {
            context_type::QP => (l2 + qp1 + queue_pairs, None),
            context_type::SRQ => (u64::from(srq_l2) + u64::from(srqs), None),
            context_type::CQ => (u64::from(kind.split(0)) + 2 * queue_pairs, None),
            context_type::TIM => (l2 + qp1 + queue_pairs, None),
            context_type::SP_TQM_RING => {
                let vnics = u64::from(most(context_type::VNIC));
                (vnics + l2 + 2 * (queue_pairs + qp1) + u64::from(kind.least()), None)
            }
            context_type::FP_TQM_RING => (l2 + 2 * (queue_pairs + qp1), None),
            context_type::MRAV => {
                let entries = u64::from(regions) + u64::from(address_vectors);
                (entries, Some([address_vectors, 0, 0, 0]))
            }
            _ => (kind.most().into(), None),
        }
    };
    let shares = kinds.iter().map(|kind| {
        let (entries, splits) = all(kind);
        Share { entries: kind.clamp(entries), splits }
    });
    let plan = Plan {
        queue_pairs: queue_pairs.min(most(context_type::QP)),
        regions,
        completion_queues: queue_pairs.saturating_mul(2).min(most(context_type::CQ)),
    };
    (shares.collect(), plan)
}

/// Allocates the memory of one instance of a type.
fn prepare<F: PciFunction>(
    function: &F,
    kind: &Kind,
    share: &Share,
) -> Result<(F::Memory, PageTable<F>), Error> {
    let entry_size = u64::from(kind.answer.entry_size.get());
    let bytes = share.entries * entry_size;
    if entry_size == 0 || bytes > MOST_BYTES {
        return Err(Error::Answer {
            device: function.bus_address().to_string(),
            call: "HWRM_FUNC_BACKING_STORE_QCAPS_V2",
            wrong: "more or less memory than tables lead to:",
            value: bytes,
        });
    }
    let len = (bytes as usize).next_multiple_of(PAGE_BYTES);
    let memory = memory::allocate(function, len)?;
    let init = kind.answer.ctx_init_value;
    if init != 0 && kind.answer.flags.get() & context_flags::ENABLE_CTX_KIND_INIT != 0 {
        initialize(&memory, len, entry_size as usize, kind.answer.ctx_init_offset, init);
    }
    let table = PageTable::of_levels(function, &memory, len, PAGE_BYTES, Purpose::Flat, 1)?;
    Ok((memory, table))
}

/// What hands one instance of a type over; the last of all, if `done`.
fn request<F: PciFunction>(
    kind: &Kind,
    share: &Share,
    instance: u16,
    table: &PageTable<F>,
    done: bool,
) -> FuncBackingStoreCfgV2Request {
    let mut request = FuncBackingStoreCfgV2Request::new();
    request.kind = kind.number().into();
    request.instance = instance.into();
    request.flags = if done { CFG_ALL_DONE } else { 0 }.into();
    request.page_dir = table.top.into();
    // At most `max_num_entries`, which has 32 bits.
    request.num_entries = (share.entries as u32).into();
    request.entry_size = kind.answer.entry_size;
    request.page_size_pbl_level = table.levels;
    match share.splits {
        Some(splits) => {
            request.subtype_valid_cnt = 1;
            request.split_entry = splits.map(Into::into);
        }
        None => {
            request.subtype_valid_cnt = kind.answer.subtype_valid_cnt.min(4);
            for index in 0..usize::from(request.subtype_valid_cnt) {
                request.split_entry[index] = kind.split(index).into();
            }
        }
    }
    request
}

/// Writes `value` to the byte of each entry that the firmware wants to hold it, page by page: entries
/// start anew with each page.
fn initialize(
    memory: &impl doorbell_hal::memory::DmaMemory,
    len: usize,
    entry_size: usize,
    offset: u8,
    value: u8,
) {
    let offset = usize::from(offset) * size_of::<u32>();
    for page in (0..len).step_by(PAGE_BYTES) {
        for entry in (0..PAGE_BYTES).step_by(entry_size).take_while(|at| at + offset < PAGE_BYTES) {
            memory::write(memory, page + entry + offset, &[value]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn kind(number: u16, most: u32, least: u32, splits: &[u32]) -> Kind {
        let mut answer = FuncBackingStoreQcapsV2Answer::new_zeroed();
        answer.kind = number.into();
        answer.entry_size = 64.into();
        answer.max_num_entries = most.into();
        answer.min_num_entries = least.into();
        answer.subtype_valid_cnt = splits.len() as u8;
        for (index, split) in splits.iter().enumerate() {
            answer.split_entry[index] = (*split).into();
        }
        Kind { answer }
    }

    fn kinds(queue_pairs: u32, regions: u32, vectors: &[u32]) -> Vec<Kind> {
        use context_type::*;
        alloc::vec![
            kind(QP, queue_pairs, 0, &[1024, 16, 256]),
            kind(SRQ, 20_000, 0, &[8]),
            kind(CQ, 1 << 20, 0, &[2048]),
            kind(VNIC, 100, 0, &[]),
            kind(STAT, 50, 0, &[]),
            kind(SP_TQM_RING, 1 << 20, 32, &[]),
            kind(FP_TQM_RING, 1 << 20, 0, &[]),
            kind(MRAV, regions, 0, vectors),
            kind(TIM, 1 << 20, 0, &[]),
        ]
    }

    fn entries(kinds: &[Kind], limits: bool) -> (Vec<u64>, Plan) {
        let (shares, plan) = plan(kinds, limits);
        (shares.iter().map(|share| share.entries).collect(), plan)
    }

    #[test]
    fn the_firmwares_contexts_hold_what_the_contract_says() {
        // No limits of its own: at most 65,536 beyond those it keeps, and those it destroys fast.
        let (all, plan) = entries(&kinds(1 << 20, 1 << 20, &[0]), false);
        assert_eq!(plan.queue_pairs, 65_536 + 256);
        assert_eq!(plan.regions, 262_144);
        let extra = 65_536 + 256;
        let qps = 1024 + 16 + extra;
        let regions = 262_144 + 131_072;
        assert_eq!(
            all,
            [
                qps,
                8 + 8192,
                2048 + 2 * extra,
                100,
                50,
                100 + 1024 + 2 * (extra + 16) + 32,
                1024 + 2 * (extra + 16),
                regions,
                qps
            ]
        );
        // Fewer than that: all there are; and half the entries are regions.
        let (_, plan) = entries(&kinds(10_000, 1000, &[0]), false);
        assert_eq!((plan.queue_pairs, plan.regions), (10_000 - 1024 - 16 + 256, 500));
        // Limits of its own: every one; and the entries less its one count of address vectors.
        let (_, plan) = entries(&kinds(1 << 20, 1 << 20, &[1 << 18]), true);
        assert_eq!(plan.queue_pairs, (1 << 20) - 1024 - 16);
        assert_eq!(plan.regions, (1 << 20) - (1 << 18));
        // No one count of them: half again.
        let (_, plan) = entries(&kinds(1 << 20, 1 << 20, &[1 << 18, 7]), true);
        assert_eq!(plan.regions, 262_144);
    }

    #[test]
    fn no_numbers_of_the_firmwares_overflow() {
        let most = [u32::MAX; 4];
        for limits in [false, true] {
            for splits in [&most[..], &[0; 4], &[1 << 31], &[]] {
                let kinds: Vec<_> =
                    (0..16).map(|number| kind(number, u32::MAX, u32::MAX, splits)).collect();
                entries(&kinds, limits);
                entries(&[], limits);
            }
        }
    }

    #[test]
    fn entries_come_in_the_firmwares_multiples_and_bounds() {
        let mut kind = kind(0, 1000, 10, &[]);
        kind.answer.entry_multiple = 32;
        assert_eq!(
            [0, 1, 33, 999, 5000].map(|entries| kind.clamp(entries)),
            [10, 32, 64, 1000, 1000]
        );
    }

    #[test]
    fn instances_are_the_set_bits() {
        let mut kind = kind(0, 1, 1, &[]);
        assert_eq!(instances(&kind), [0]);
        kind.answer.instance_bit_map = 0x8000_0005.into();
        assert_eq!(instances(&kind), [0, 2, 31]);
    }
}
