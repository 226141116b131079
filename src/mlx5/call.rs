//! One verbs call: how its attributes are put together, and what its answer is.

use super::abi::verbs::ioctl::{Attribute, Header, INLINE_BYTES};
use super::abi::verbs::method::{self, Method};
use super::abi::verbs::write::WriteCommand;
use crate::error::Error;
use core::marker::PhantomData;
use core::mem::size_of_val;
use doorbell_hal::Errno;
use doorbell_hal::uverbs::Uverbs;
use heapless::Vec;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The most attributes that a call of this driver has.
const MOST: usize = 16;
/// Words of a header, of an attribute, and of the largest command.
const HEADER: usize = size_of::<Header>() / size_of::<u64>();
const ATTRIBUTE: usize = size_of::<Attribute>() / size_of::<u64>();
const WORDS: usize = HEADER + MOST * ATTRIBUTE;

/// A call that is being put together. It borrows its inputs and outputs until it was made.
pub(super) struct Call<'a> {
    name: &'static str,
    method: Method,
    attributes: Vec<Attribute, MOST>,
    arguments: PhantomData<&'a mut ()>,
}

/// The attributes of a call that succeeded, as the kernel left them.
pub(super) struct Answer(Vec<Attribute, MOST>);

impl Answer {
    /// The handle or descriptor that the kernel gave for the object of attribute `id`.
    pub(super) fn handle(&self, id: u16) -> u32 {
        let attribute = self.0.iter().find(|attribute| attribute.attr_id == id);
        attribute.map_or(0, |attribute| attribute.data as u32)
    }
}

impl<'a> Call<'a> {
    /// A call of `method`, which errors name `name`.
    pub(super) fn new(name: &'static str, method: Method) -> Self {
        Call { name, method, attributes: Vec::new(), arguments: PhantomData }
    }

    /// One of the older commands, through the ioctl.
    pub(super) fn write<I, O>(
        name: &'static str,
        command: WriteCommand,
        input: &'a I,
        output: &'a mut O,
    ) -> Self
    where
        I: IntoBytes + Immutable,
        O: IntoBytes + FromBytes,
    {
        use method::invoke_write as attribute;
        Call::new(name, method::device::INVOKE_WRITE)
            .constant(attribute::WRITE_CMD, command.code().into())
            .input(attribute::CORE_IN, input)
            .output(attribute::CORE_OUT, output)
    }

    /// One of the older commands that answers nothing.
    pub(super) fn write_only<I>(name: &'static str, command: WriteCommand, input: &'a I) -> Self
    where
        I: IntoBytes + Immutable,
    {
        use method::invoke_write as attribute;
        Call::new(name, method::device::INVOKE_WRITE)
            .constant(attribute::WRITE_CMD, command.code().into())
            .input(attribute::CORE_IN, input)
    }

    /// Adds an attribute. No call of this driver has more than there is room for; if one had, the
    /// kernel would refuse it for want of the attribute.
    fn add(mut self, attribute: Attribute) -> Self {
        let added = self.attributes.push(attribute);
        debug_assert!(added.is_ok(), "{} has too many attributes", self.name);
        self
    }

    pub(super) fn handle(self, id: u16, handle: u32) -> Self {
        self.add(Attribute::handle(id, handle))
    }

    pub(super) fn new_handle(self, id: u16) -> Self {
        self.add(Attribute::new_handle(id))
    }

    pub(super) fn descriptor(self, id: u16, descriptor: i32) -> Self {
        self.add(Attribute::descriptor(id, descriptor))
    }

    pub(super) fn number(self, id: u16, value: u32) -> Self {
        self.add(Attribute::input_u32(id, value))
    }

    pub(super) fn constant(self, id: u16, value: u64) -> Self {
        self.add(Attribute::input_u64(id, value))
    }

    /// Adds input. What fits the attribute itself travels there.
    pub(super) fn input<I: IntoBytes + Immutable>(self, id: u16, input: &'a I) -> Self {
        let bytes = input.as_bytes();
        let len = bytes.len() as u16;
        let attribute = if bytes.len() <= INLINE_BYTES {
            let mut data = [0; INLINE_BYTES];
            data[..bytes.len()].copy_from_slice(bytes);
            Attribute { len, ..Attribute::input_u64(id, u64::from_ne_bytes(data)) }
        } else {
            Attribute::input_at(id, bytes.as_ptr() as u64, len)
        };
        self.add(attribute)
    }

    /// Adds room for output.
    pub(super) fn output<O: IntoBytes + FromBytes + ?Sized>(
        self,
        id: u16,
        output: &'a mut O,
    ) -> Self {
        let len = size_of_val(output) as u16;
        self.add(Attribute::output_at(id, output.as_mut_bytes().as_mut_ptr() as u64, len))
    }

    /// Makes the call.
    ///
    /// # Safety
    ///
    /// What the call hands to the device (by address, inside of an input) stays mapped until it was
    /// taken back (SAFETY.md, K2). Inputs and outputs are looked after by this type.
    pub(super) unsafe fn make<V: Uverbs>(self, verbs: &V) -> Result<Answer, Error> {
        let refused =
            |reason| Error::Refused { device: verbs.device_name().into(), call: self.name, reason };
        let header = Header::new(self.method, self.attributes.len());
        let header = header.ok_or_else(|| refused(Errno::EINVAL))?;
        let mut words = [0; WORDS];
        let used = HEADER + self.attributes.len() * ATTRIBUTE;
        let (head, tail) = words[..used].as_mut_bytes().split_at_mut(size_of::<Header>());
        head.copy_from_slice(header.as_bytes());
        tail.copy_from_slice(self.attributes.as_bytes());
        // SAFETY: K2: inputs and outputs are borrowed by `self` for their lengths; the rest is our
        // caller's promise.
        unsafe { verbs.ioctl(&mut words[..used]) }.map_err(refused)?;
        let mut answer = self.attributes.clone();
        let bytes = &words[..used].as_bytes()[size_of::<Header>()..];
        answer.as_mut_bytes().copy_from_slice(bytes);
        Ok(Answer(answer))
    }
}
