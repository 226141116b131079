//! From a function that nobody drives to a NIC that moves bytes, and back.

use super::abi::answer::FunctionAnswer;
use super::abi::command::{
    AddGid, Command, DeinitializeFirmware, DeleteGid, InitializeFirmware, QueryFunction,
};
use super::abi::event::CommandEvent;
use super::abi::field::{RetransmissionTable, ReversedGid, SwappedMac};
use super::abi::firmware::function::{
    DRV_RGTR_16BIT_VER_MODE, FuncCfgRequest, FuncDbrPacingQcfgRequest, FuncDrvRgtrRequest,
    FuncDrvUnrgtrRequest, FuncQcapsAnswer, FuncQcapsRequest, FuncQcfgAnswer, FuncQcfgRequest,
    FuncResetRequest, FuncResourceQcapsRequest, OS_TYPE_LINUX, drv_rgtr_enables, func_caps,
    func_caps_ext, func_caps_ext2, func_cfg_enables,
};
use super::abi::firmware::port::{
    LINK, PortPhyCfgRequest, PortPhyQcapsRequest, PortPhyQcfgRequest, QueueQportcfgRequest,
    phy_cfg_flags,
};
use super::abi::firmware::receive::VnicQcapsRequest;
use super::abi::firmware::ring::{
    INT_MODE_MSIX, RingAllocRequest, RingFreeRequest, STAT_CTX_ROCE, StatCtxAllocRequest,
    StatCtxFreeRequest, ring_type,
};
use super::abi::firmware::version::device_flags;
use super::abi::firmware::{OWN_FUNCTION, Request};
use super::abi::notification::Notification;
use super::abi::page::PAGE_BYTES;
use super::backing::BackingStore;
use super::commands::{Commands, EVENTS, EventMemory};
use super::context::{Context, Facts, Limits};
use super::event::{NOTIFICATIONS, NotificationMemory, Notifier, VECTORS};
use super::firmware::Channel;
use super::memory::{self, PageTable, Purpose};
use super::pacing::Pacing;
use crate::error::Error;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use doorbell_hal::Errno;
use doorbell_hal::mmio::RegisterPage;
use doorbell_hal::pci::{self, Bar, ConfigurationError, DeviceAddresses, Identity, PciFunction};
use zerocopy::{FromZeros, IntoBytes};

/// The kind of function that this family is: a BCM57608.
pub const IDENTITY: Identity = Identity { vendor: 0x14e4, device: 0x1760 };

/// The chip's own number, which the firmware tells.
const CHIP: u16 = 0x1760;
/// Looks for a firmware that does not answer right after a reset.
const TRIES: usize = 3;
/// Between two of them: as long as a reset may take.
const RESET_TIME: Duration = Duration::from_millis(100);
/// Bytes of statistics, without and with those of aggregation.
const STATISTICS: [u16; 2] = [160, 176];
/// What Linux' driver takes for the largest depth, whatever the firmware says.
const MOST_DEPTH: u8 = 126;
/// What Linux' driver takes for the most pieces of an entry of variable size.
const MOST_PIECES: u8 = 13;
/// The most entries of a queue: a send ring of them, and their messages, is within the 2^16 slots that
/// doorbells and completions can tell apart, and within what Linux' driver makes.
const MOST_ENTRIES: u32 = 4095;
/// The most entries of a completion queue: half of what doorbells can tell apart.
const MOST_COMPLETIONS: u32 = 1 << 22;

/// The channels to a function's firmware, and what the firmware was given.
pub(super) struct Control<F: PciFunction> {
    registers: F::Bar,
    channel: Channel<F>,
    /// Channels of which nothing came, whose memory firmware may still write.
    silent: Vec<Channel<F>>,
    commands: Option<Commands<F>>,
    backing: Option<BackingStore<F>>,
    notifications: Option<NotificationMemory<F>>,
    statistics: Option<F::Memory>,
    /// What is to be undone, in the order in which it was done.
    done: Vec<Done>,
    /// Whether relaxed ordering is to be turned on again.
    relaxed_ordering: bool,
}

/// A step of the boot that is undone at the end.
#[derive(Clone, Copy)]
enum Done {
    Registered,
    Ring(u16),
    Statistics(u32),
    Initialized,
    Gid(u16),
}

/// Boots the NIC that `function` is.
pub(super) fn boot<F: PciFunction>(function: F) -> Result<Context<F>, Error> {
    let device = function.bus_address().to_string();
    let configuration =
        |reason: ConfigurationError| Error::Configuration { device: device.clone(), reason };
    let identity = pci::identity(&function).map_err(configuration)?;
    if identity != IDENTITY {
        return Err(Error::OtherDevice { device, identity });
    }
    let relaxed_ordering = pci::relaxed_ordering(&function).map_err(configuration)?;
    let reset = function.reset();
    reset.map_err(|reason| memory::refused(&function, "a reset of the function", reason))?;
    let bars = |number, what| {
        function.bar(number).map_err(|reason| memory::refused(&function, what, reason))
    };
    let registers = || bars(0, "the mapping of base address register 0");
    let (registers, others) = (registers()?, registers()?);
    let doorbells = bars(2, "the mapping of base address register 2")?;
    let mut control = Box::new(Control {
        registers,
        channel: Channel::new(&function)?,
        silent: Vec::new(),
        commands: None,
        backing: None,
        notifications: None,
        statistics: None,
        done: Vec::new(),
        relaxed_ordering,
    });
    match control.boot(&function, &doorbells) {
        Ok((facts, notifier)) => {
            Ok(Context::new(function, control, facts, doorbells, others, notifier))
        }
        Err(error) => {
            if !control.shut_down(&function) {
                // The function may still reach what it was given.
                core::mem::forget(control);
            }
            Err(error)
        }
    }
}

/// An error for an answer that the firmware may not give.
fn wrong<F: PciFunction>(
    function: &F,
    call: &'static str,
    wrong: &'static str,
    value: impl Into<u64>,
) -> Error {
    let (device, value) = (function.bus_address().to_string(), value.into());
    Error::Answer { device, call, wrong, value }
}

impl<F: PciFunction> Control<F> {
    fn request<R: Request>(&mut self, function: &F, request: R) -> Result<R::Answer, Error> {
        self.channel.request(function, &self.registers, request)
    }

    /// Makes a command, whose answer in memory, if it has one, comes to `answer`.
    pub(super) fn command<C: Command>(
        &mut self,
        function: &F,
        command: C,
        answer: &mut [u8],
    ) -> Result<CommandEvent, Error> {
        let call = super::commands::symbol(C::OPCODE);
        if let Some(unanswered) = self.channel.poisoned() {
            let device = function.bus_address().to_string();
            return Err(Error::Poisoned { device, call, unanswered });
        }
        let Some(commands) = &mut self.commands else {
            return Err(memory::refused(function, call, Errno::ENODEV));
        };
        let timeout = self.channel.longest;
        let event = commands.execute(function, &self.registers, command, answer, timeout);
        if matches!(event, Err(Error::NoAnswer { .. })) {
            self.channel.poison(call);
        }
        event
    }

    /// Reads what the firmware has reported by itself.
    pub(super) fn service(&mut self) {
        if let Some(commands) = &mut self.commands {
            commands.service();
        }
    }

    /// The numbers of queue pairs that have failed since this was last asked.
    pub(super) fn take_failed(&mut self) -> Vec<u32> {
        self.commands.as_mut().map(Commands::take_failed).unwrap_or_default()
    }

    fn boot(&mut self, function: &F, doorbells: &F::Bar) -> Result<(Facts, Notifier<F>), Error> {
        let device = function.bus_address().to_string();
        let configuration =
            |reason: ConfigurationError| Error::Configuration { device: device.clone(), reason };
        // Before anything that the function could write: its writes land in order from here on.
        pci::set_relaxed_ordering(function, false).map_err(configuration)?;
        pci::set_command(function, pci::Command::MEMORY, true).map_err(configuration)?;
        pci::set_command(function, pci::Command::BUS_MASTER, true).map_err(configuration)?;

        self.meet(function)?;
        let reset = FuncResetRequest::new();
        self.channel.request_reset(function, &self.registers, reset)?;
        let caps = self.capabilities(function)?;
        let queues = self.request(function, QueueQportcfgRequest::new())?;
        if queues.max_configurable_queues == 0 {
            let call = "HWRM_QUEUE_QPORTCFG";
            return Err(wrong(function, call, "no queues:", 0u8));
        }
        let limits = caps.flags_ext2.get() & func_caps_ext2::SW_MAX_RESOURCE_LIMITS_SUPPORTED != 0;
        let backing = self.backing.insert(BackingStore::new());
        let plan = backing.give(function, &mut self.channel, &self.registers, limits)?;

        let mut bounds = FuncResourceQcapsRequest::new();
        bounds.fid = OWN_FUNCTION.into();
        self.request(function, bounds)?;
        self.register_driver(function)?;
        let pacing = self.pacing(function, caps.flags_ext2.get())?;
        let geometry = self.geometry(function, doorbells)?;
        let vnics = self.request(function, VnicQcapsRequest::new())?;
        let statistics = STATISTICS[usize::from(vnics.max_aggs_supported.get() != 0)];
        self.bring_up(function, caps.port_id.get())?;
        self.reserve(function)?;

        self.event_ring(function, doorbells, geometry)?;
        let answer = self.query(function)?;
        self.start(function, statistics, &answer)?;
        let answer = self.query(function)?;
        let (notification_ring, notifications) = self.notification_ring(function)?;
        let register = self.doorbell(function, doorbells, geometry)?;
        let notifier = Notifier::new(notifications, notification_ring, register);
        let (mac, gid) = (caps.mac_address, gid_of(caps.mac_address));
        let gid_index = self.add_gid(function, mac, gid)?;
        let facts = Facts {
            device,
            mac,
            gid,
            gid_index,
            notification_ring,
            doorbell: geometry,
            pacing,
            limits: self.limits(function, &answer, plan.queue_pairs)?,
            plan,
        };
        Ok((facts, notifier))
    }

    /// Asks the firmware who it is, until it answers: right after a reset it may be silent.
    fn meet(&mut self, function: &F) -> Result<(), Error> {
        let mut tries = 1;
        let version = loop {
            match self.channel.version(function, &self.registers) {
                Err(Error::NoAnswer { .. }) if tries < TRIES => {
                    tries += 1;
                    function.pause(RESET_TIME);
                    let silent = core::mem::replace(&mut self.channel, Channel::new(function)?);
                    self.silent.push(silent);
                }
                version => break version?,
            }
        };
        let call = "HWRM_VER_GET";
        if version.chip_num.get() != CHIP {
            return Err(wrong(function, call, "another chip:", version.chip_num.get()));
        }
        if version.flags & device_flags::DEV_NOT_RDY != 0 {
            return Err(wrong(function, call, "a device that is not ready:", version.flags));
        }
        Ok(())
    }

    fn capabilities(&mut self, function: &F) -> Result<FuncQcapsAnswer, Error> {
        let mut request = FuncQcapsRequest::new();
        request.fid = OWN_FUNCTION.into();
        let caps = self.request(function, request)?;
        let call = "HWRM_FUNC_QCAPS";
        if caps.flags.get() & func_caps::ROCE_V2_SUPPORTED == 0 {
            return Err(wrong(function, call, "no RoCE v2:", caps.flags.get()));
        }
        if caps.flags_ext.get() & func_caps_ext::BS_V2_SUPPORTED == 0 {
            let what = "no list of its contexts:";
            return Err(wrong(function, call, what, caps.flags_ext.get()));
        }
        if caps.mac_address == [0; 6] || caps.mac_address[0] & 1 != 0 {
            let [a, b, c, d, e, f] = caps.mac_address;
            let address = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
            return Err(wrong(function, call, "an Ethernet address that is none:", address));
        }
        Ok(caps)
    }

    fn register_driver(&mut self, function: &F) -> Result<(), Error> {
        let mut request = FuncDrvRgtrRequest::new();
        request.flags = DRV_RGTR_16BIT_VER_MODE.into();
        request.enables = (drv_rgtr_enables::OS_TYPE | drv_rgtr_enables::VER).into();
        request.os_type = OS_TYPE_LINUX.into();
        (request.ver_maj_8b, request.ver_maj) = (1, 1.into());
        self.request(function, request)?;
        self.done.push(Done::Registered);
        Ok(())
    }

    /// How doorbells are to be paced, if the firmware asks for it.
    fn pacing(&mut self, function: &F, caps: u32) -> Result<Option<Pacing>, Error> {
        const ASKS: u32 =
            func_caps_ext2::DBR_PACING_EXT_SUPPORTED | func_caps_ext2::DBR_PACING_V0_SUPPORTED;
        if caps & ASKS == 0 {
            return Ok(None);
        }
        let answer = self.request(function, FuncDbrPacingQcfgRequest::new())?;
        let pacing = Pacing::new(&self.registers, &answer).map_err(|register| {
            let what = "a register of doorbells that cannot be read:";
            wrong(function, "HWRM_FUNC_DBR_PACING_QCFG", what, register)
        })?;
        Ok(Some(pacing))
    }

    /// Where the doorbell page is in BAR 2.
    fn geometry(&mut self, function: &F, doorbells: &F::Bar) -> Result<usize, Error> {
        let answer = self.configuration(function)?;
        let offset = u64::from(answer.legacy_l2_db_size_kb.get()) * 1024;
        let offset = offset.next_multiple_of(PAGE_BYTES as u64);
        if offset + PAGE_BYTES as u64 > doorbells.size() {
            let what = "a doorbell page past the end of its registers:";
            return Err(wrong(function, "HWRM_FUNC_QCFG", what, offset));
        }
        Ok(offset as usize)
    }

    fn configuration(&mut self, function: &F) -> Result<FuncQcfgAnswer, Error> {
        let mut request = FuncQcfgRequest::new();
        request.fid = OWN_FUNCTION.into();
        self.request(function, request)
    }

    /// Sees to it that the port comes up, if it is not: it need not be up to open the NIC.
    fn bring_up(&mut self, function: &F, port: u16) -> Result<(), Error> {
        let mut request = PortPhyQcapsRequest::new();
        request.port_id = port.into();
        self.request(function, request)?;
        let mut request = PortPhyQcfgRequest::new();
        request.port_id = port.into();
        if self.request(function, request)?.link != LINK {
            let mut request = PortPhyCfgRequest::new();
            request.port_id = port.into();
            request.flags = (phy_cfg_flags::RESET_PHY | phy_cfg_flags::RESTART_AUTONEG).into();
            self.request(function, request)?;
        }
        Ok(())
    }

    fn reserve(&mut self, function: &F) -> Result<(), Error> {
        let mut request = FuncCfgRequest::new();
        request.fid = OWN_FUNCTION.into();
        request.enables = (func_cfg_enables::NUM_MSIX | func_cfg_enables::NUM_STAT_CTXS).into();
        request.num_msix = VECTORS.into();
        request.num_stat_ctxs = 1.into();
        self.request(function, request)?;
        let given = self.configuration(function)?;
        if given.alloc_msix.get() < VECTORS {
            let what = "too few interrupt vectors:";
            return Err(wrong(function, "HWRM_FUNC_QCFG", what, given.alloc_msix.get()));
        }
        Ok(())
    }

    /// Makes a notification ring of `length` entries: its number.
    fn ring(
        &mut self,
        function: &F,
        top: u64,
        levels: u8,
        length: usize,
        vector: u16,
    ) -> Result<u16, Error> {
        let mut request = RingAllocRequest::new();
        request.ring_type = ring_type::NQ;
        request.page_tbl_addr = top.into();
        request.page_size = PAGE_BYTES.ilog2() as u8;
        request.page_tbl_depth = levels;
        request.length = (length as u32).into();
        request.logical_id = vector.into();
        request.int_mode = INT_MODE_MSIX;
        let ring = self.request(function, request)?.ring_id.get();
        self.done.push(Done::Ring(ring));
        Ok(ring)
    }

    fn event_ring(&mut self, function: &F, doorbells: &F::Bar, offset: usize) -> Result<(), Error> {
        let events = EventMemory::new(function)?;
        let register = self.doorbell(function, doorbells, offset)?;
        let (top, levels) = (events.table.top, events.table.levels);
        // Held before the firmware knows it, whatever it answers.
        self.commands = Some(Commands::new(function, events, register)?);
        let ring = self.ring(function, top, levels, EVENTS, 0)?;
        if let Some(commands) = &mut self.commands {
            commands.report_to(ring);
        }
        Ok(())
    }

    /// The doorbell register, for who is asked for nothing often.
    fn doorbell(
        &self,
        function: &F,
        doorbells: &F::Bar,
        offset: usize,
    ) -> Result<<F::Bar as RegisterPage>::Register, Error> {
        let register = doorbells.register(offset, size_of::<u64>());
        register.ok_or_else(|| memory::refused(function, "the doorbell page", Errno::ENXIO))
    }

    fn notification_ring(&mut self, function: &F) -> Result<(u16, NotificationMemory<F>), Error> {
        let len = NOTIFICATIONS * size_of::<Notification>();
        let entries = memory::allocate(function, len)?;
        let table = PageTable::new(function, &entries, len, PAGE_BYTES, Purpose::Ring)?;
        let (top, levels) = (table.top, table.levels);
        let memory = Arc::new((entries, table));
        self.notifications = Some(memory.clone());
        Ok((self.ring(function, top, levels, NOTIFICATIONS, 1)?, memory))
    }

    fn query(&mut self, function: &F) -> Result<FunctionAnswer, Error> {
        let mut answer = FunctionAnswer::new_zeroed();
        self.command(function, QueryFunction::new_zeroed(), answer.as_mut_bytes())?;
        Ok(answer)
    }

    /// Starts the RoCE engine.
    fn start(
        &mut self,
        function: &F,
        statistics: u16,
        answer: &FunctionAnswer,
    ) -> Result<(), Error> {
        let counts = memory::allocate(function, PAGE_BYTES)?;
        let address = counts.device_address(0);
        self.statistics = Some(counts);
        let none = || memory::refused(function, "a device address", Errno::EFAULT);
        let mut request = StatCtxAllocRequest::new();
        request.stats_dma_addr = address.ok_or_else(none)?.into();
        request.update_period_ms = 1000.into();
        request.stat_ctx_flags = STAT_CTX_ROCE;
        request.stats_dma_length = statistics.into();
        let context = self.request(function, request)?.stat_ctx_id.get();
        self.done.push(Done::Statistics(context));
        let mut command =
            InitializeFirmware { stat_ctx_id: context.into(), ..FromZeros::new_zeroed() };
        let flags = answer.dev_cap_flags;
        if flags.hw_requester_retx_enabled() || flags.hw_responder_retx_enabled() {
            // Bit 1: the driver knows that the NIC sends again by itself.
            command.header.flags = 2.into();
        }
        self.command(function, command, &mut [])?;
        self.done.push(Done::Initialized);
        Ok(())
    }

    fn add_gid(&mut self, function: &F, mac: [u8; 6], gid: [u8; 16]) -> Result<u16, Error> {
        let command = AddGid {
            gid: ReversedGid::of(gid),
            src_mac: SwappedMac::of(mac),
            ..FromZeros::new_zeroed()
        };
        let index = self.command(function, command, &mut [])?.xid.get();
        let what = "an index that needs more than 16 bits:";
        let index = u16::try_from(index).map_err(|_| wrong(function, "ADD_GID", what, index))?;
        self.done.push(Done::Gid(index));
        Ok(index)
    }

    fn limits(
        &self,
        function: &F,
        answer: &FunctionAnswer,
        queue_pairs: u32,
    ) -> Result<Limits, Error> {
        let call = "QUERY_FUNC";
        let table = answer.dev_cap_ext_flags_2.req_retransmission_support();
        if RetransmissionTable::from_code(table) != Some(RetransmissionTable::HostMsnTable) {
            let what = "a retransmission table that is not one of messages:";
            return Err(wrong(function, call, what, table));
        }
        let entries = u32::from(answer.max_qp_wr.get()).saturating_sub(1).min(MOST_ENTRIES);
        let pieces = answer.max_sge_var_wqe.min(MOST_PIECES);
        if entries == 0 || pieces == 0 {
            return Err(wrong(function, call, "no room for requests:", entries.min(pieces.into())));
        }
        Ok(Limits {
            // The answer leaves queue pair 1 out.
            queue_pairs: answer.max_qp.get().min(queue_pairs),
            completion_entries: (answer.max_cqe.get() / 2).min(MOST_COMPLETIONS),
            entries,
            pieces: pieces.into(),
            inline: answer.max_inline_data.get().min(u32::from(pieces) * 16),
            read_depth: answer.max_qp_rd_atom.min(MOST_DEPTH),
            initiator_depth: answer.max_qp_init_rd_atom.min(MOST_DEPTH),
            key_with_region: answer.dev_cap_flags.mr_register_alloc(),
            atomics: answer.dev_cap_ext_flags & 1 == 0,
        })
    }

    /// Undoes the boot, as far as the firmware answers, and turns bus mastering off. Answers whether
    /// the function reaches no memory any more.
    pub(super) fn shut_down(&mut self, function: &F) -> bool {
        while let Some(done) = self.done.pop() {
            // What the firmware refuses to undo goes with the next reset.
            let _ = self.undo(function, done);
        }
        let quiet = pci::set_command(function, pci::Command::BUS_MASTER, false).is_ok()
            || function.reset().is_ok();
        if self.relaxed_ordering {
            // A function whose configuration space cannot be written is not quiet either.
            let _ = pci::set_relaxed_ordering(function, true);
        }
        quiet
    }

    fn undo(&mut self, function: &F, done: Done) -> Result<(), Error> {
        match done {
            Done::Registered => {
                self.request(function, FuncDrvUnrgtrRequest::new())?;
            }
            Done::Ring(ring) => {
                let mut request = RingFreeRequest::new();
                request.ring_type = ring_type::NQ;
                request.ring_id = ring.into();
                self.request(function, request)?;
            }
            Done::Statistics(context) => {
                let mut request = StatCtxFreeRequest::new();
                request.stat_ctx_id = context.into();
                self.request(function, request)?;
            }
            Done::Initialized => {
                self.command(function, DeinitializeFirmware::new_zeroed(), &mut [])?;
            }
            Done::Gid(index) => {
                let command = DeleteGid { gid_index: index.into(), ..FromZeros::new_zeroed() };
                self.command(function, command, &mut [])?;
            }
        }
        Ok(())
    }
}

/// The address of a NIC on the fabric: `10.x.y.z`, from the last three bytes of its Ethernet address,
/// as an IPv4-mapped identifier.
fn gid_of([_, _, _, x, y, z]: [u8; 6]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, x, y, z]
}
