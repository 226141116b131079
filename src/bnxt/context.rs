//! What every object of a NIC shares: its function, what is known of it, and the channels to its
//! firmware.

use super::abi::command::Command;
use super::abi::event::CommandEvent;
use super::backing::Plan;
use super::boot::Control;
use super::event::Notifier;
use super::pacing::Pacing;
use super::ring::paced::Pace;
use super::ring::{Failures, InFlight, PacedRegister};
use crate::endpoint::Mtu;
use crate::error::Error;
use crate::ring::table::Table;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use doorbell_hal::Errno;
use doorbell_hal::mmio::RegisterPage;
use doorbell_hal::pci::PciFunction;
use doorbell_hal::sync::{AtomicU32, Mutex, Ordering};

/// A register of a NIC whose function is held as `F`.
pub(super) type RegisterOf<F> = PacedRegister<<<F as PciFunction>::Bar as RegisterPage>::Register>;

/// The only protection domain: the driver chooses its number.
pub(super) const PROTECTION_DOMAIN: u32 = 1;
/// The doorbell page of everything: the one that the driver has anyway.
pub(super) const DOORBELL_PAGE: u32 = 0;
/// The MTU of connections, unless one asks for less.
pub(super) const MTU: Mtu = Mtu::B4096;

/// What is known of a NIC from its boot on.
pub(super) struct Facts {
    /// Where its function is, as text: what errors call it.
    pub(super) device: String,
    pub(super) mac: [u8; 6],
    pub(super) gid: [u8; 16],
    /// The hardware's index of that identifier.
    pub(super) gid_index: u16,
    /// The ring that completion queues notify.
    pub(super) notification_ring: u16,
    /// Where doorbells are, in BAR 2.
    pub(super) doorbell: usize,
    /// How doorbells are paced, if the firmware asks for it.
    pub(super) pacing: Option<Pacing>,
    pub(super) plan: Plan,
    pub(super) limits: Limits,
}

/// The most that the device holds of things.
pub(super) struct Limits {
    pub(super) queue_pairs: u32,
    pub(super) completion_entries: u32,
    /// Requests, or receives, of a queue pair.
    pub(super) entries: u32,
    pub(super) pieces: u32,
    pub(super) inline: u32,
    /// Reads and atomics that a queue pair answers at once.
    pub(super) read_depth: u8,
    /// Reads and atomics that a queue pair has under way at once.
    pub(super) initiator_depth: u8,
    /// Whether registering a region allocates its key.
    pub(super) key_with_region: bool,
    pub(super) atomics: bool,
}

/// An open NIC, as its objects see it.
///
/// Whatever the firmware was given is dropped only after the function was made to forget it: see
/// `drop`.
pub(super) struct Context<F: PciFunction> {
    pub(super) facts: Facts,
    /// The channels to the firmware: one request at a time. `None` only while this is dropped.
    control: Mutex<Option<Box<Control<F>>>>,
    doorbells: F::Bar,
    /// BAR 0, for pacing.
    pub(super) registers: F::Bar,
    /// Registers that ask for grants.
    pub(super) paced: AtomicU32,
    pub(super) table: Table<InFlight>,
    pub(super) failures: Failures,
    numbers: Mutex<Numbers>,
    /// The notification ring.
    pub(super) notifier: Mutex<Notifier<F>>,
    /// Memory of objects that the firmware would not give back.
    kept: Mutex<Vec<Box<dyn Send>>>,
    pub(super) function: F,
}

/// The numbers of things.
struct Numbers {
    /// Indexes of queue pairs, the smallest first.
    next: u32,
    free: BTreeSet<u32>,
    /// The indexes of live queue pairs, by their numbers.
    queue_pairs: BTreeMap<u32, u32>,
    regions: u32,
}

impl<F: PciFunction> Context<F> {
    pub(super) fn new(
        function: F,
        control: Box<Control<F>>,
        facts: Facts,
        doorbells: F::Bar,
        registers: F::Bar,
        notifier: Notifier<F>,
    ) -> Self {
        let (free, queue_pairs) = (BTreeSet::new(), BTreeMap::new());
        Context {
            table: Table::new(facts.limits.queue_pairs),
            facts,
            control: Mutex::new(Some(control)),
            doorbells,
            registers,
            paced: AtomicU32::new(0),
            failures: Failures::new(),
            numbers: Mutex::new(Numbers { next: 0, free, queue_pairs, regions: 0 }),
            notifier: Mutex::new(notifier),
            kept: Mutex::new(Vec::new()),
            function,
        }
    }

    /// An error of the system for something asked of the function.
    pub(super) fn refused(&self, call: &'static str) -> impl FnOnce(Errno) -> Error {
        move |reason| Error::Refused { device: self.facts.device.clone(), call, reason }
    }

    /// Makes a command, whose answer in memory, if it has one, comes to `answer`.
    pub(super) fn command<C: Command>(
        &self,
        command: C,
        answer: &mut [u8],
    ) -> Result<CommandEvent, Error> {
        let mut control = self.control.lock();
        let none = || self.refused("a command")(Errno::ENODEV);
        let control = control.as_mut().ok_or_else(none)?;
        let event = control.command(&self.function, command, answer);
        self.note_failures(control);
        event
    }

    /// Reads what the firmware has reported by itself.
    pub(super) fn service(&self) {
        if let Some(control) = self.control.lock().as_mut() {
            control.service();
            self.note_failures(control);
        }
    }

    fn note_failures(&self, control: &mut Control<F>) {
        for number in control.take_failed() {
            if let Some(index) = self.numbers.lock().queue_pairs.get(&number) {
                self.failures.add(*index);
            }
        }
    }

    /// The doorbell register. Every doorbell is one store of 8 bytes, so threads share it.
    pub(super) fn register(self: &Arc<Self>) -> Result<RegisterOf<F>, Error> {
        let register = self.doorbells.register(self.facts.doorbell, size_of::<u64>());
        let register = register.ok_or_else(|| self.refused("the doorbell page")(Errno::ENXIO))?;
        let pace = self.facts.pacing.is_some().then(|| {
            self.paced.fetch_add(1, Ordering::Relaxed);
            let pace: Arc<dyn Pace> = self.clone();
            pace
        });
        Ok(PacedRegister::new(register, pace))
    }

    /// Keeps what the firmware may still use, until the function was made to forget everything.
    pub(super) fn keep(&self, memory: impl Send + 'static) {
        self.kept.lock().push(Box::new(memory));
    }

    /// An index that no queue pair has.
    pub(super) fn take_index(&self) -> Result<u32, Error> {
        let mut numbers = self.numbers.lock();
        if let Some(index) = numbers.free.pop_first() {
            return Ok(index);
        }
        let most = self.facts.limits.queue_pairs;
        if numbers.next >= most {
            let what = "the number of queue pairs";
            let given = u64::from(numbers.next) + 1;
            return Err(Error::OutOfRange { what, given, least: 0, most: most.into() });
        }
        numbers.next += 1;
        self.failures.reserve(numbers.next as usize);
        Ok(numbers.next - 1)
    }

    /// Takes back an index that no completion can carry any more.
    pub(super) fn return_index(&self, index: u32) {
        self.numbers.lock().free.insert(index);
    }

    /// Notes that the firmware knows the queue pair with `index` as `number`.
    pub(super) fn add_queue_pair(&self, number: u32, index: u32) {
        self.numbers.lock().queue_pairs.insert(number, index);
    }

    pub(super) fn remove_queue_pair(&self, number: u32) {
        self.numbers.lock().queue_pairs.remove(&number);
    }

    /// Counts a region, if there may be another.
    pub(super) fn add_region(&self) -> Result<(), Error> {
        let mut numbers = self.numbers.lock();
        let most = self.facts.plan.regions;
        if numbers.regions >= most {
            let what = "the number of regions";
            let given = u64::from(numbers.regions) + 1;
            return Err(Error::OutOfRange { what, given, least: 0, most: most.into() });
        }
        numbers.regions += 1;
        Ok(())
    }

    pub(super) fn remove_region(&self) {
        self.numbers.lock().regions -= 1;
    }
}

impl<F: PciFunction> Drop for Context<F> {
    fn drop(&mut self) {
        let control = self.control.lock().take();
        let Some(mut control) = control else { return };
        if !control.shut_down(&self.function) {
            // The function may still reach its memory, which so is never used for anything else.
            core::mem::forget(control);
            core::mem::forget(core::mem::take(&mut *self.kept.lock()));
        }
    }
}
