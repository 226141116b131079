//! The attributes of a verbs ioctl: what a method takes, and what a call brought.
//!
//! The rules are those of `drivers/infiniband/core/uverbs_ioctl.c` (`ib_uverbs_ioctl`,
//! `ib_uverbs_run_method`, `uverbs_process_attr`); the sizes a method takes are those of its
//! `DECLARE_UVERBS_NAMED_METHOD`.

use super::user;
use doorbell_hal::Errno;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The bytes of `struct ib_uverbs_ioctl_hdr` without attributes.
const HEADER: usize = 24;
/// The bytes of a `struct ib_uverbs_attr`.
const ATTRIBUTE: usize = 16;
/// `UVERBS_ATTR_F_MANDATORY`.
const MANDATORY: u16 = 1;
/// `UVERBS_ATTR_F_VALID_OUTPUT`.
const VALID_OUTPUT: u16 = 2;
/// Driver data of the caller, `UVERBS_ATTR_UHW_IN`.
pub(super) const UHW_IN: u16 = 0x1000;
/// Driver data for the caller, `UVERBS_ATTR_UHW_OUT`.
pub(super) const UHW_OUT: u16 = 0x1001;

/// How a method uses a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    New,
    Read,
    Destroy,
}

/// What an attribute is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Bytes in: at least `least`, at most `most`; longer input is accepted when what is beyond is
    /// zero and `grows`.
    In { least: u16, most: u16, grows: bool },
    /// Room for bytes out.
    Out { least: u16, most: u16, grows: bool },
    /// The number of an object.
    Handle { object: u16, access: Access },
    /// The descriptor of an event file.
    File { object: u16, access: Access },
}

/// One attribute that a method knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute {
    pub(super) id: u16,
    pub(super) kind: Kind,
    pub(super) mandatory: bool,
}

/// Shorthand for the tables of methods, named as the kernel's macros.
impl Attribute {
    const fn new(id: u16, kind: Kind) -> Self {
        Attribute { id, kind, mandatory: true }
    }

    /// This attribute may be left out.
    pub(super) const fn optional(self) -> Self {
        Attribute { mandatory: false, ..self }
    }

    /// `UVERBS_ATTR_PTR_IN` of a type.
    pub(super) const fn input<T>(id: u16) -> Self {
        let size = size_of::<T>() as u16;
        Self::new(id, Kind::In { least: size, most: size, grows: false })
    }

    /// `UVERBS_ATTR_CONST_IN`.
    pub(super) const fn constant(id: u16) -> Self {
        Self::input::<u64>(id)
    }

    /// `UVERBS_ATTR_FLAGS_IN`.
    pub(super) const fn flags(id: u16) -> Self {
        Self::new(id, Kind::In { least: 4, most: 8, grows: false })
    }

    /// `UVERBS_ATTR_PTR_IN` of a structure that may grow (`UVERBS_ATTR_STRUCT`).
    pub(super) const fn input_struct<T>(id: u16) -> Self {
        let size = size_of::<T>() as u16;
        Self::new(id, Kind::In { least: size, most: size, grows: true })
    }

    /// `UVERBS_ATTR_PTR_IN` of at least some bytes (`UVERBS_ATTR_MIN_SIZE`).
    pub(super) const fn input_at_least(id: u16, least: u16) -> Self {
        Self::new(id, Kind::In { least, most: u16::MAX, grows: false })
    }

    /// `UVERBS_ATTR_PTR_OUT` of a type.
    pub(super) const fn output<T>(id: u16) -> Self {
        let size = size_of::<T>() as u16;
        Self::new(id, Kind::Out { least: size, most: size, grows: false })
    }

    /// `UVERBS_ATTR_PTR_OUT` of a structure that may grow (`UVERBS_ATTR_STRUCT`).
    pub(super) const fn output_struct<T>(id: u16) -> Self {
        let size = size_of::<T>() as u16;
        Self::new(id, Kind::Out { least: size, most: size, grows: true })
    }

    /// `UVERBS_ATTR_PTR_OUT` of at least some bytes (`UVERBS_ATTR_MIN_SIZE`).
    pub(super) const fn output_at_least(id: u16, least: u16) -> Self {
        Self::new(id, Kind::Out { least, most: u16::MAX, grows: false })
    }

    /// `UVERBS_ATTR_IDR`.
    pub(super) const fn handle(id: u16, object: u16, access: Access) -> Self {
        Self::new(id, Kind::Handle { object, access })
    }

    /// `UVERBS_ATTR_FD`.
    pub(super) const fn file(id: u16, object: u16, access: Access) -> Self {
        Self::new(id, Kind::File { object, access })
    }
}

/// The two attributes of `UVERBS_ATTR_UHW`.
pub(super) const UHW: [Attribute; 2] = [
    Attribute::input_at_least(UHW_IN, 0).optional(),
    Attribute::output_at_least(UHW_OUT, 0).optional(),
];

/// The fields of a command's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) object: u16,
    pub(super) method: u16,
    pub(super) attributes: u16,
    pub(super) driver: u32,
}

impl Header {
    /// Reads and checks the header as `ib_uverbs_ioctl` does.
    pub(super) fn read(command: &[u64]) -> Result<Header, Errno> {
        let bytes = command.as_bytes();
        if bytes.len() < HEADER {
            return Err(Errno::EFAULT);
        }
        let length = usize::from(half(bytes, 0));
        let attributes = half(bytes, 6);
        if length > 4096 || length != HEADER + usize::from(attributes) * ATTRIBUTE {
            return Err(Errno::EINVAL);
        }
        if command[1] != 0 || word(bytes, 20) != 0 {
            return Err(Errno::EPROTONOSUPPORT);
        }
        if bytes.len() < length {
            return Err(Errno::EFAULT);
        }
        Ok(Header {
            object: half(bytes, 2),
            method: half(bytes, 4),
            attributes,
            driver: word(bytes, 16),
        })
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// One attribute that a call brought.
#[derive(Clone, Copy, Debug)]
struct Given {
    id: u16,
    /// Which of the command's attributes it is.
    index: usize,
    length: u16,
    data: u64,
    kind: Kind,
}

/// A call: the command, with its attributes checked one by one.
pub(super) struct Call<'a> {
    command: &'a mut [u64],
    given: Vec<Given>,
}

impl<'a> Call<'a> {
    /// A call with no attribute yet.
    pub(super) fn new(command: &'a mut [u64]) -> Self {
        Call { command, given: Vec::new() }
    }

    /// Takes attribute number `index` of the command (`uverbs_set_attr`). Answers with what is to
    /// be looked up for it, if it names an object.
    ///
    /// # Safety
    ///
    /// The command's pointers keep K2, and `index` is below the header's count.
    pub(super) unsafe fn take(
        &mut self,
        index: usize,
        knows: &[&[Attribute]],
    ) -> Result<Option<Lookup>, Errno> {
        let at = HEADER + index * ATTRIBUTE;
        let bytes = self.command.as_bytes();
        let (id, length, flags, extra) =
            (half(bytes, at), half(bytes, at + 2), half(bytes, at + 4), half(bytes, at + 6));
        let data = self.command[at / 8 + 1];
        let known = knows.iter().flat_map(|list| list.iter()).find(|known| known.id == id);
        let Some(&Attribute { kind, .. }) = known else {
            return if flags & MANDATORY != 0 { Err(Errno::EPROTONOSUPPORT) } else { Ok(None) };
        };
        if self.given.iter().any(|given| given.id == id) {
            return Err(Errno::EINVAL);
        }
        let given = Given { id, index, length, data, kind };
        let lookup = match kind {
            Kind::In { least, most, grows } => {
                // SAFETY: K2, passed on to our caller.
                if length > most && grows && !unsafe { is_clear(&given, most) }? {
                    return Err(Errno::EOPNOTSUPP);
                }
                if length < least || (!grows && length > most) || extra != 0 {
                    return Err(Errno::EINVAL);
                }
                None
            }
            Kind::Out { least, most, grows } => {
                if length < least || (!grows && length > most) || extra != 0 {
                    return Err(Errno::EINVAL);
                }
                None
            }
            Kind::Handle { object, access } => {
                if extra != 0 || length != 0 {
                    return Err(Errno::EINVAL);
                }
                Some(Lookup { id, object, access, file: false, value: data })
            }
            Kind::File { object, access } => {
                if extra != 0 || length != 0 {
                    return Err(Errno::EINVAL);
                }
                Some(Lookup { id, object, access, file: true, value: data })
            }
        };
        self.given.push(given);
        Ok(lookup)
    }

    /// Whether every mandatory attribute is there.
    pub(super) fn is_complete(&self, knows: &[&[Attribute]]) -> bool {
        let mut mandatory = knows.iter().flat_map(|list| list.iter()).filter(|a| a.mandatory);
        mandatory.all(|attribute| self.has(attribute.id))
    }

    fn find(&self, id: u16) -> Option<&Given> {
        self.given.iter().find(|given| given.id == id)
    }

    /// Whether the call brought attribute `id`.
    pub(super) fn has(&self, id: u16) -> bool {
        self.find(id).is_some()
    }

    /// The number of an object that the call named, looked up already.
    pub(super) fn handle(&self, id: u16) -> Option<u32> {
        let given = self.find(id)?;
        u32::try_from(given.data).ok()
    }

    /// The value of a constant, at most `most` (`uverbs_get_const`).
    pub(super) fn constant(&self, id: u16, most: u64) -> Result<u64, Errno> {
        let value = self.find(id).ok_or(Errno::ENOENT)?.data;
        if value > most { Err(Errno::EINVAL) } else { Ok(value) }
    }

    /// A word of flags among `allowed`, zero where the call brought none (`uverbs_get_flags32`).
    pub(super) fn flags(&self, id: u16, allowed: u32) -> Result<u32, Errno> {
        let flags = match self.find(id) {
            None => 0,
            Some(given) if given.length == 8 => given.data,
            Some(given) if given.length == 4 => u64::from(word(given.data.as_bytes(), 0)),
            Some(_) => return Err(Errno::EINVAL),
        };
        if flags & !u64::from(allowed) != 0 { Err(Errno::EINVAL) } else { Ok(flags as u32) }
    }

    /// The bytes of an input, of the size of `T` or more (`uverbs_copy_from`).
    ///
    /// # Safety
    ///
    /// K2, for the call's pointers.
    pub(super) unsafe fn input<T: FromBytes + IntoBytes>(&self, id: u16) -> Result<T, Errno> {
        let given = self.find(id).ok_or(Errno::ENOENT)?;
        let mut value = T::new_zeroed();
        let bytes = value.as_mut_bytes();
        let length = bytes.len().min(given.length.into());
        // SAFETY: K2, passed on to our caller.
        unsafe { copy(given, 0, &mut bytes[..length]) }?;
        Ok(value)
    }

    /// The bytes of an input as they are; none where the call brought no such attribute.
    ///
    /// # Safety
    ///
    /// K2, for the call's pointers.
    pub(super) unsafe fn bytes(&self, id: u16) -> Result<Vec<u8>, Errno> {
        let Some(given) = self.find(id) else { return Ok(Vec::new()) };
        let mut bytes = vec![0; given.length.into()];
        // SAFETY: K2, passed on to our caller.
        unsafe { copy(given, 0, &mut bytes) }?;
        Ok(bytes)
    }

    /// How many bytes the call brought, or has room for, under `id`.
    pub(super) fn length(&self, id: u16) -> usize {
        self.find(id).map_or(0, |given| given.length.into())
    }

    /// Answers with as much of `bytes` as there is room for (`uverbs_copy_to`).
    ///
    /// # Safety
    ///
    /// K2, for the call's pointers.
    pub(super) unsafe fn output(&mut self, id: u16, bytes: &[u8]) -> Result<(), Errno> {
        let &Given { index, length, data, .. } = self.find(id).ok_or(Errno::ENOENT)?;
        let length = bytes.len().min(length.into());
        // SAFETY: K2, passed on to our caller.
        unsafe { user::write(data, &bytes[..length]) }?;
        self.mark(index);
        Ok(())
    }

    /// Answers with `bytes`, and zeros in the room beyond (`uverbs_copy_to_struct_or_zero`).
    ///
    /// # Safety
    ///
    /// K2, for the call's pointers.
    pub(super) unsafe fn output_or_zero(&mut self, id: u16, bytes: &[u8]) -> Result<(), Errno> {
        let length = self.find(id).ok_or(Errno::ENOENT)?.length.into();
        let mut padded = bytes.to_vec();
        padded.resize(length, 0);
        // SAFETY: K2, passed on to our caller.
        unsafe { self.output(id, &padded) }
    }

    /// [`Self::output`], for an attribute that the caller may leave out.
    ///
    /// # Safety
    ///
    /// K2, for the call's pointers.
    pub(super) unsafe fn output_if_asked(&mut self, id: u16, bytes: &[u8]) -> Result<(), Errno> {
        // SAFETY: K2, passed on to our caller.
        match unsafe { self.output(id, bytes) } {
            Err(Errno::ENOENT) => Ok(()),
            other => other,
        }
    }

    /// Writes the number of a new object into the command.
    pub(super) fn set_data(&mut self, id: u16, value: u64) {
        if let Some(given) = self.given.iter_mut().find(|given| given.id == id) {
            given.data = value;
            self.command[(HEADER + given.index * ATTRIBUTE) / 8 + 1] = value;
        }
    }

    /// Says that the output in attribute `id` is filled in.
    pub(super) fn mark_output(&mut self, id: u16) {
        if let Some(index) = self.find(id).map(|given| given.index) {
            self.mark(index);
        }
    }

    fn mark(&mut self, index: usize) {
        let at = HEADER + index * ATTRIBUTE + 4;
        let bytes = self.command.as_mut_bytes();
        let flags = half(bytes, at) | VALID_OUTPUT;
        bytes[at..at + 2].copy_from_slice(&flags.to_ne_bytes());
    }
}

/// An object to look up for an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    pub(super) id: u16,
    pub(super) object: u16,
    pub(super) access: Access,
    /// Whether `value` is a descriptor rather than a number of an object.
    pub(super) file: bool,
    pub(super) value: u64,
}

/// Copies input bytes from `at` on: out of the attribute itself when they fit there
/// (`uverbs_attr_ptr_is_inline`), else from where it points.
unsafe fn copy(given: &Given, at: usize, to: &mut [u8]) -> Result<(), Errno> {
    if given.length <= 8 {
        let end = at + to.len();
        to.copy_from_slice(given.data.as_bytes().get(at..end).ok_or(Errno::EINVAL)?);
        return Ok(());
    }
    // SAFETY: K2, passed on to our caller.
    unsafe { user::read(given.data.wrapping_add(at as u64), to) }
}

/// Whether an input's bytes from `known` on are all zero (`uverbs_is_attr_cleared`).
unsafe fn is_clear(given: &Given, known: u16) -> Result<bool, Errno> {
    let mut rest = vec![0; usize::from(given.length) - usize::from(known)];
    // SAFETY: K2, passed on to our caller.
    unsafe { copy(given, known.into(), &mut rest) }?;
    Ok(rest.iter().all(|&byte| byte == 0))
}
