//! A client that drives the verbs file and the rings by hand: raw ioctls, raw work entries.

use doorbell::mlx5::abi::driver::{self, AllocUcontextReqV2, AllocUcontextResp, LibCaps};
use doorbell::mlx5::abi::verbs::AccessFlags;
use doorbell::mlx5::abi::verbs::ioctl::{Attribute, Header};
use doorbell::mlx5::abi::verbs::method::{self, Method, UHW_IN, UHW_OUT};
use doorbell::mlx5::abi::verbs::qp::{self, ModifyQp};
use doorbell::mlx5::abi::verbs::write::{self, WriteCommand};
use doorbell_hal::Errno;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::{Control, VirtualMemory};
use doorbell_model::{VirtualConnectx, kernel};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// A command with any attributes.
pub fn command(method: Method, attributes: &[Attribute]) -> Vec<u64> {
    let header = Header::new(method, attributes.len()).unwrap();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(attributes.as_bytes());
    let words = bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    words.collect()
}

/// The attribute at `index` of a command, as the kernel left it.
pub fn attribute(command: &[u64], index: usize) -> Attribute {
    let at = size_of::<Header>() + index * size_of::<Attribute>();
    Attribute::read_from_prefix(&command.as_bytes()[at..]).unwrap().0
}

/// Input bytes as an attribute: in it, or at their address.
pub fn input(id: u16, bytes: &[u8]) -> Attribute {
    let len = bytes.len() as u16;
    if bytes.len() > 8 {
        return Attribute::input_at(id, bytes.as_ptr() as u64, len);
    }
    let mut data = [0; 8];
    data[..bytes.len()].copy_from_slice(bytes);
    Attribute { len, ..Attribute::input_u64(id, u64::from_ne_bytes(data)) }
}

/// Room for output as an attribute.
pub fn output(id: u16, bytes: &mut [u8]) -> Attribute {
    Attribute::output_at(id, bytes.as_mut_ptr() as u64, bytes.len() as u16)
}

/// An open file.
pub struct Client {
    pub file: VirtualConnectx,
    pub control: Control,
}

impl Client {
    /// A NIC of its own on `network`, without a context.
    pub fn without_context(network: &Network) -> Self {
        Self::of(VirtualConnectx::builder().network(network).open())
    }

    pub fn of(file: VirtualConnectx) -> Self {
        let control = file.control();
        Client { file, control }
    }

    /// A NIC with a context as the driver makes it.
    pub fn new(network: &Network) -> Self {
        let client = Self::without_context(network);
        client.get_context(&dynamic_context()).unwrap();
        client
    }

    /// Makes a call whose attributes point into memory of the caller.
    pub fn call(&self, command: &mut [u64]) -> Result<(), Errno> {
        // SAFETY: K2: the tests build attributes out of live slices; what goes to the device is
        // memory of the client's own allocations, which outlive the objects.
        unsafe { self.file.ioctl(command) }
    }

    pub fn get_context(&self, request: &AllocUcontextReqV2) -> Result<AllocUcontextResp, Errno> {
        let mut answer = AllocUcontextResp::new_zeroed();
        let attributes =
            [input(UHW_IN, request.as_bytes()), output(UHW_OUT, answer.as_mut_bytes())];
        self.call(&mut command(method::device::GET_CONTEXT, &attributes))?;
        Ok(answer)
    }

    /// One of the older commands.
    pub fn invoke<A: FromBytes + IntoBytes>(
        &self,
        number: WriteCommand,
        request: &(impl IntoBytes + Immutable),
        driver: &[u8],
        driver_answer: &mut [u8],
    ) -> Result<A, Errno> {
        let mut answer = A::new_zeroed();
        let mut attributes = vec![
            Attribute::input_u64(method::invoke_write::WRITE_CMD, number.code().into()),
            input(method::invoke_write::CORE_IN, request.as_bytes()),
        ];
        if size_of::<A>() > 0 {
            attributes.push(output(method::invoke_write::CORE_OUT, answer.as_mut_bytes()));
        }
        if !driver.is_empty() {
            attributes.push(input(UHW_IN, driver));
        }
        if !driver_answer.is_empty() {
            attributes.push(output(UHW_OUT, driver_answer));
        }
        self.call(&mut command(method::device::INVOKE_WRITE, &attributes))?;
        Ok(answer)
    }

    pub fn domain(&self) -> u32 {
        self.try_domain().unwrap()
    }

    pub fn try_domain(&self) -> Result<u32, Errno> {
        let mut number = [0; 4];
        let request = write::AllocPd::new_zeroed();
        self.invoke(WriteCommand::AllocPd, &request, &[], &mut number)
            .map(|answer: write::AllocPdResp| answer.pd_handle)
    }

    /// Memory for rings and regions.
    pub fn memory(&self, length: usize) -> VirtualMemory {
        self.file.allocate(length).unwrap()
    }

    pub fn register(&self, request: &write::RegMr) -> Result<write::RegMrResp, Errno> {
        self.invoke(WriteCommand::RegMr, request, &[], &mut [])
    }

    /// A region of all of `memory`.
    pub fn region(&self, domain: u32, memory: &VirtualMemory, access: AccessFlags) -> u32 {
        let start = memory.as_ptr().as_ptr() as u64;
        let request = write::RegMr {
            start,
            length: memory.len() as u64,
            hca_va: start,
            pd_handle: domain,
            access_flags: access,
            ..Default::default()
        };
        self.register(&request).unwrap().lkey
    }

    /// A register page: its handle, its index and the offset to map it at.
    pub fn uar(&self) -> (u32, u32, u64) {
        self.try_uar(driver::UarAllocType::NonCached.code()).unwrap()
    }

    pub fn try_uar(&self, kind: u64) -> Result<(u32, u32, u64), Errno> {
        use driver::uar_alloc as attribute_id;
        let (mut offset, mut length, mut page) = ([0; 8], [0; 4], [0; 4]);
        let mut bytes = command(
            driver::uar::ALLOC,
            &[
                Attribute::new_handle(attribute_id::HANDLE),
                Attribute::input_u64(attribute_id::TYPE, kind),
                output(attribute_id::MMAP_OFFSET, &mut offset),
                output(attribute_id::MMAP_LENGTH, &mut length),
                output(attribute_id::PAGE_ID, &mut page),
            ],
        );
        self.call(&mut bytes)?;
        assert_eq!(u32::from_ne_bytes(length), 4096);
        let handle = attribute(&bytes, 0).data as u32;
        Ok((handle, u32::from_ne_bytes(page), u64::from_ne_bytes(offset)))
    }

    /// Destroys the object of attribute 0 of `method`; `answer` is room for what it answers.
    pub fn destroy(
        &self,
        method: Method,
        id: u16,
        handle: u32,
        answer: &mut [u8],
    ) -> Result<(), Errno> {
        let mut attributes = vec![Attribute::handle(id, handle)];
        if !answer.is_empty() {
            attributes.push(output(id + 1, answer));
        }
        self.call(&mut command(method, &attributes))
    }

    pub fn destroy_queue(&self, handle: u32) -> Result<write::DestroyCqResp, Errno> {
        let mut answer = write::DestroyCqResp::new_zeroed();
        let id = method::destroy_cq::HANDLE;
        self.destroy(method::cq::DESTROY, id, handle, answer.as_mut_bytes())?;
        Ok(answer)
    }

    pub fn destroy_pair(&self, handle: u32) -> Result<qp::DestroyQpResp, Errno> {
        let mut answer = qp::DestroyQpResp::new_zeroed();
        let id = method::destroy_qp::HANDLE;
        self.destroy(method::qp::DESTROY, id, handle, answer.as_mut_bytes())?;
        Ok(answer)
    }

    pub fn modify(&self, request: &ModifyQp) -> Result<(), Errno> {
        self.invoke::<[u8; 0]>(WriteCommand::ModifyQp, request, &[], &mut []).map(|_| ())
    }

    /// Event files: their descriptors, completion channel first.
    pub fn event_files(&self) -> (i32, i32) {
        let mut bytes = command(
            method::async_event::ALLOC,
            &[Attribute::new_handle(method::async_event_alloc::FD_HANDLE)],
        );
        self.call(&mut bytes).unwrap();
        let request = write::CreateCompChannel::new_zeroed();
        let channel: write::CreateCompChannelResp =
            self.invoke(WriteCommand::CreateCompChannel, &request, &[], &mut []).unwrap();
        (channel.fd as i32, attribute(&bytes, 0).data as i32)
    }

    pub fn take_event_files(&self, (channel, events): (i32, i32)) -> kernel::VirtualEventFiles {
        // SAFETY: K3: both came out of the calls of `event_files`, once.
        unsafe { self.file.event_files(channel, events) }.unwrap()
    }
}

/// What the driver asks of a context: register pages one by one, completions of version 1.
pub fn dynamic_context() -> AllocUcontextReqV2 {
    AllocUcontextReqV2 {
        total_num_bfregs: 2,
        max_cqe_version: 1,
        lib_caps: LibCaps::new().with_uar_4k(true).with_dyn_uar(true),
        ..AllocUcontextReqV2::new_zeroed()
    }
}

/// A word of ring memory.
pub fn word(memory: &VirtualMemory, at: usize) -> &AtomicU32 {
    assert!(at + 4 <= memory.len() && at.is_multiple_of(4));
    // SAFETY: M1: inside the memory, which lives as long as the answer and is aligned; the NIC
    // touches it atomically, too.
    unsafe { AtomicU32::from_ptr(memory.as_ptr().as_ptr().add(at).cast()) }
}

/// Copies bytes into memory that the NIC reads.
pub fn store(memory: &VirtualMemory, at: usize, bytes: &[u8]) {
    assert!(at + bytes.len() <= memory.len());
    for (place, &byte) in bytes.iter().enumerate() {
        // SAFETY: M1, M2: inside the memory; atomic, as the NIC's accesses are.
        unsafe { AtomicU8::from_ptr(memory.as_ptr().as_ptr().add(at + place)) }
            .store(byte, Ordering::Relaxed);
    }
}

/// Copies bytes out of memory that the NIC writes.
pub fn load(memory: &VirtualMemory, at: usize, length: usize) -> Vec<u8> {
    assert!(at + length <= memory.len());
    // SAFETY: M1, M2: inside the memory; atomic, as the NIC's accesses are.
    let byte = |at| unsafe { AtomicU8::from_ptr(memory.as_ptr().as_ptr().add(at)) };
    (at..at + length).map(|at| byte(at).load(Ordering::Acquire)).collect()
}

/// The 8 bytes at `at`, as a number of this machine.
pub fn number(memory: &VirtualMemory, at: usize) -> &AtomicU64 {
    assert!(at + 8 <= memory.len() && at.is_multiple_of(8));
    // SAFETY: M1: as in `word`.
    unsafe { AtomicU64::from_ptr(memory.as_ptr().as_ptr().add(at).cast()) }
}

pub fn address(memory: &VirtualMemory) -> u64 {
    memory.as_ptr().as_ptr().expose_provenance() as u64
}

/// Steps until nothing is left to do.
pub fn settle(network: &Network) {
    assert!(network.run_until_idle(1_000_000), "there is always more to do");
}

/// Reads a record into bytes of a known layout.
pub fn record<T: FromBytes + KnownLayout>(bytes: &[u8]) -> T {
    T::read_from_bytes(bytes).unwrap()
}
