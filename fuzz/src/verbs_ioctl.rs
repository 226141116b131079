//! Verbs commands, to the kernel of a virtual ConnectX.

use crate::arena::Arena;
use crate::input::Input;
use crate::meddler::small_nic;
use doorbell::mlx5::abi::driver;
use doorbell::mlx5::abi::verbs::ioctl::{Attribute, DRIVER_MLX5, Header, MANDATORY};
use doorbell::mlx5::abi::verbs::method::{self, Method, UHW_IN};
use doorbell::mlx5::abi::verbs::write::WriteCommand;
use doorbell_hal::mmio::{Register, RegisterPage};
use doorbell_hal::uverbs::{EventFiles, Uverbs};
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::{Network, VirtualPage};
use doorbell_model::kernel::Control;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::{AsRawFd, OwnedFd};
use zerocopy::IntoBytes;

/// Calls of one run.
const CALLS: usize = 96;
/// The most attributes of a command, and the most bytes of an input.
const ATTRIBUTES: usize = 24;
const INPUT: usize = 512;

/// Where in the arena the inputs of a command are, its outputs, and the rings and regions.
const INPUTS: usize = 0;
const OUTPUTS: usize = INPUTS + ATTRIBUTES * INPUT;
const RINGS: usize = 1 << 16;

/// The methods that a byte can name.
pub const METHODS: [Method; 20] = [
    method::device::INVOKE_WRITE,
    method::device::QUERY_PORT,
    method::device::GET_CONTEXT,
    method::device::QUERY_GID_TABLE,
    method::device::QUERY_GID_ENTRY,
    method::pd::DESTROY,
    method::cq::CREATE,
    method::cq::DESTROY,
    method::qp::CREATE,
    method::qp::DESTROY,
    method::mr::DESTROY,
    method::mr::QUERY,
    method::mr::REG_DMABUF,
    method::async_event::ALLOC,
    driver::uar::ALLOC,
    driver::uar::DESTROY,
    // UVERBS_METHOD_INFO_HANDLES, UVERBS_METHOD_QUERY_CONTEXT.
    Method { object: 0, method: 1 },
    Method { object: 0, method: 4 },
    Method { object: 5, method: 0 },
    Method { object: 0x1003, method: 0x1000 },
];

/// What an attribute of a command carries: the lower two bits of its byte.
pub mod carries {
    /// A value: 8 bytes.
    pub const VALUE: u8 = 0;
    /// The address of an input: as many bytes of it as its length says, and at most 512.
    pub const INPUT: u8 = 1;
    /// The address of room for an output.
    pub const OUTPUT: u8 = 2;
    /// The kernel may ignore the attribute.
    pub const OPTIONAL: u8 = 4;
    /// Another byte of flags and two of `attr_data` follow.
    pub const MORE: u8 = 8;
}

/// Makes commands of the bytes. Each is answered, one that is refused changes nothing, and when the
/// file is closed nothing is left.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let network = Network::stepped(0);
    let file = small_nic(&network);
    let control = file.control();
    let mut world = World { file, pages: Vec::new(), arena: Arena::zeroed(), buffer: buffer() };
    for _ in 0..CALLS {
        if input.is_empty() {
            break;
        }
        world.call(&input, &control, &network);
    }
    drop(world);
    assert_eq!(control.objects(), Default::default(), "something was left behind");
    let left = network.with_nic(control.nic(), |nic, _, _| nic.objects());
    assert_eq!(left, Some([0; 5]), "the NIC has objects that no file has");
    network.run_until_idle(64);
}

/// What stands for a dma-buf.
fn buffer() -> OwnedFd {
    let buffer = memfd_create("dma-buf", MemfdFlags::CLOEXEC).expect("a file of memory");
    ftruncate(&buffer, 1 << 14).expect("four pages of it");
    buffer
}

struct World {
    file: VirtualConnectx,
    pages: Vec<VirtualPage>,
    arena: &'static Arena,
    buffer: OwnedFd,
}

impl World {
    fn call(&mut self, input: &Input, control: &Control, network: &Network) {
        match input.byte() {
            0..=199 => self.command(input, control),
            200..=209 => {
                let offset = match input.byte() {
                    0xff => input.double(),
                    // Those of `MLX5_IB_METHOD_UAR_OBJ_ALLOC`.
                    index @ 0..=0x7f => (0x900 + u64::from(index)) << 12,
                    // Those of a context without.
                    index => (u64::from(index & 3) << 8 | u64::from(index >> 2 & 7)) << 12,
                };
                let len = if input.flag() { input.half().into() } else { 4096 };
                self.pages.extend(self.file.map(offset, len).ok());
            }
            210..=224 => self.store(input),
            225..=234 => {
                network.run_until_idle(input.byte().into());
            }
            235..=239 => {
                // SAFETY: K3: descriptors that are not the file's own are refused.
                let files = unsafe { self.file.event_files(descriptor(input), descriptor(input)) };
                if let Ok(files) = files {
                    let _ =
                        (files.read_completion(&mut [0; 8]), files.read_asynchronous(&mut [0; 16]));
                }
            }
            240..=244 => {
                self.pages.clear();
                self.file = self.file.open_again();
            }
            _ => {
                let at = RINGS + usize::from(input.half());
                self.arena.write(at, input.bytes(usize::from(input.byte())));
            }
        }
    }

    /// A store to a register of a page that was mapped.
    fn store(&mut self, input: &Input) {
        if self.pages.is_empty() {
            return;
        }
        let page = &self.pages[input.below(self.pages.len())];
        let offset = usize::from(input.half()) % 4096 / 64 * 64;
        let Some(register) = page.register(offset, 64) else { return };
        // SAFETY: R1: the register is 64 bytes long.
        unsafe {
            match input.byte() {
                0xf0.. => register.copy(0, &std::array::from_fn(|_| input.double())),
                place => register.store(usize::from(place) % 8 * 8, input.double()),
            }
        }
    }

    fn command(&mut self, input: &Input, control: &Control) {
        let method = match input.byte() {
            0xff => Method { object: input.half(), method: input.half() },
            known => METHODS[usize::from(known) % METHODS.len()],
        };
        let (odd, count) = (input.byte(), input.below(ATTRIBUTES + 1));
        let mut words = vec![0u64; (size_of::<Header>() + count * size_of::<Attribute>()) / 8];
        let header = Header {
            length: size_of_val(&words[..]) as u16 + u16::from(odd & 1),
            object_id: method.object,
            method_id: method.method,
            num_attrs: count as u16 + u16::from(odd >> 1 & 1),
            reserved1: (odd >> 2 & 1).into(),
            driver_id: DRIVER_MLX5 + u32::from(odd >> 3 & 1),
            reserved2: (odd >> 4 & 1).into(),
        };
        let invoked = self.attributes(input, method, &mut words);
        words.as_mut_bytes()[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        let before = control.objects();
        // SAFETY: K2: what the command points to is in the arena, or where the kernel refuses to go;
        // and the arena stays, whatever is handed to the device of it.
        let result = unsafe { self.file.ioctl(&mut words) };
        // A command that destroys has done that before it can fail to answer.
        if result.is_err() && !destroys(method, invoked) {
            assert_eq!(control.objects(), before, "{method:?} was refused and changed something");
        }
    }

    /// Fills the attributes in. Answers which of the older commands they invoke.
    fn attributes(&self, input: &Input, method: Method, words: &mut [u64]) -> u64 {
        let mut invoked = u64::MAX;
        let mut inputs = Vec::new();
        let bytes = &mut words.as_mut_bytes()[size_of::<Header>()..];
        for (place, bytes) in bytes.chunks_exact_mut(size_of::<Attribute>()).enumerate() {
            let (id, len, what) = (input.half(), input.half(), input.byte());
            let mut attribute = Attribute {
                attr_id: id,
                len,
                flags: if what & carries::OPTIONAL == 0 { MANDATORY } else { 0 },
                attr_data: 0,
                data: 0,
            };
            if what & carries::MORE != 0 {
                attribute.flags ^= u16::from(input.byte());
                attribute.attr_data = input.half();
            }
            attribute.data = match what & 3 {
                carries::INPUT => {
                    let mut content = [0; INPUT];
                    let given = input.bytes(usize::from(len).min(INPUT));
                    content[..given.len()].copy_from_slice(given);
                    inputs.push((id, INPUTS + place * INPUT, content));
                    self.arena.address(INPUTS + place * INPUT)
                }
                carries::OUTPUT => self.arena.address(OUTPUTS + place * INPUT),
                _ => self.value(method, id, input.double()),
            };
            if method == method::device::INVOKE_WRITE && id == method::invoke_write::WRITE_CMD {
                invoked = attribute.data;
            }
            bytes.copy_from_slice(attribute.as_bytes());
        }
        for (id, at, mut content) in inputs {
            self.relocate(id, invoked, &mut content);
            self.arena.write(at, &content);
        }
        invoked
    }

    /// The data of an attribute that carries `value`: an address that leads nowhere but into the
    /// arena, if it is one.
    fn value(&self, method: Method, id: u16, value: u64) -> u64 {
        match id {
            method::reg_dmabuf_mr::FD if method == method::mr::REG_DMABUF => {
                let known = self.buffer.as_raw_fd();
                if value & 1 == 0 { known as u64 } else { 0x7fff_ffff }
            }
            // An input with addresses in it is made to lead into the arena, or is nowhere.
            UHW_IN | method::invoke_write::CORE_IN if value >= 0x1_0000 => value | 1 << 63,
            _ => self.arena.place(value, 0),
        }
    }

    /// Makes the addresses in an input lead into the arena: where rings and records are, first in
    /// the driver's data of whatever makes something, and where a region is.
    fn relocate(&self, id: u16, invoked: u64, content: &mut [u8; INPUT]) {
        let is_region = invoked == u64::from(WriteCommand::RegMr.code());
        let places: &[usize] = match id {
            UHW_IN => &[0, 8],
            method::invoke_write::CORE_IN if is_region => &[8],
            _ => &[],
        };
        for &at in places {
            let field = &mut content[at..at + 8];
            let address = u64::from_ne_bytes(field[..].try_into().expect("8 bytes"));
            field.copy_from_slice(&self.arena.place(address, RINGS).to_ne_bytes());
        }
    }
}

/// A descriptor that event files may have.
fn descriptor(input: &Input) -> i32 {
    i32::from(input.byte() as i8)
}

/// Whether a command destroys an object.
fn destroys(method: Method, invoked: u64) -> bool {
    let destroying = [
        method::pd::DESTROY,
        method::cq::DESTROY,
        method::qp::DESTROY,
        method::mr::DESTROY,
        driver::uar::DESTROY,
    ];
    let invokes = [
        WriteCommand::DeallocPd,
        WriteCommand::DeregMr,
        WriteCommand::DestroyCq,
        WriteCommand::DestroyQp,
    ];
    destroying.contains(&method) || invokes.iter().any(|known| u64::from(known.code()) == invoked)
}
