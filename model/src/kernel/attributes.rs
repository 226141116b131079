//! The attributes of a verbs ioctl: what a method takes, and what a call brought.
//!
//! The rules are those of `drivers/infiniband/core/uverbs_ioctl.c` (`ib_uverbs_ioctl`,
//! `ib_uverbs_run_method`, `uverbs_process_attr`); the sizes a method takes are those of its
//! `DECLARE_UVERBS_NAMED_METHOD`.

use super::user;
use doorbell::mlx5::abi::verbs::ioctl::{self, Header, INLINE_BYTES, MANDATORY, VALID_OUTPUT};
use doorbell::mlx5::abi::verbs::method::{UHW_IN, UHW_OUT};
use doorbell_hal::Errno;
use zerocopy::{FromBytes, IntoBytes};

/// The bytes of a header without attributes.
const HEADER: usize = size_of::<Header>();
/// The bytes of an attribute.
const ATTRIBUTE: usize = size_of::<ioctl::Attribute>();
/// The most bytes of a command.
const MAX_COMMAND: usize = 4096;

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

/// Reads and checks a command's header as `ib_uverbs_ioctl` does.
pub(super) fn header(command: &[u64]) -> Result<Header, Errno> {
    let (header, _) = Header::read_from_prefix(command.as_bytes()).map_err(|_| Errno::EFAULT)?;
    let length = HEADER + usize::from(header.num_attrs) * ATTRIBUTE;
    if usize::from(header.length) > MAX_COMMAND || usize::from(header.length) != length {
        return Err(Errno::EINVAL);
    }
    if header.reserved1 != 0 || header.reserved2 != 0 {
        return Err(Errno::EPROTONOSUPPORT);
    }
    if size_of_val(command) < length {
        return Err(Errno::EFAULT);
    }
    Ok(header)
}

/// One attribute that a call brought.
#[derive(Clone, Copy, Debug)]
struct Given {
    id: u16,
    /// Which of the command's attributes it is.
    index: usize,
    length: u16,
    data: u64,
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
        let bytes = self.command.as_bytes().get(at..).unwrap_or_default();
        let (attribute, _) =
            ioctl::Attribute::read_from_prefix(bytes).map_err(|_| Errno::EFAULT)?;
        let ioctl::Attribute { attr_id: id, len: length, flags, attr_data: extra, data } =
            attribute;
        let known = knows.iter().flat_map(|list| list.iter()).find(|known| known.id == id);
        let Some(&Attribute { kind, .. }) = known else {
            return if flags & MANDATORY != 0 { Err(Errno::EPROTONOSUPPORT) } else { Ok(None) };
        };
        if self.given.iter().any(|given| given.id == id) {
            return Err(Errno::EINVAL);
        }
        let given = Given { id, index, length, data };
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

    /// What attribute `id` carries itself: the descriptor of a file, say. 0 if there is none.
    pub(super) fn data(&self, id: u16) -> i64 {
        self.find(id).map_or(0, |given| given.data as i64)
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
            Some(given) if given.length == 4 => {
                let (low, _) =
                    u32::read_from_prefix(given.data.as_bytes()).map_err(|_| Errno::EINVAL)?;
                low.into()
            }
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

    /// Answers with the driver's data (`ib_copy_to_udata`), for which there must be room.
    ///
    /// # Safety
    ///
    /// K2, for the call's pointers.
    pub(super) unsafe fn answer_driver(&mut self, id: u16, bytes: &[u8]) -> Result<(), Errno> {
        if self.length(id) < bytes.len() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: K2, passed on to our caller.
        unsafe { self.output(id, bytes) }
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
            let at = HEADER + given.index * ATTRIBUTE;
            let bytes = self.command.as_mut_bytes().get_mut(at..).unwrap_or_default();
            if let Ok((attribute, _)) = ioctl::Attribute::mut_from_prefix(bytes) {
                attribute.data = value;
            }
        }
    }

    /// Says that the output in attribute `id` is filled in.
    pub(super) fn mark_output(&mut self, id: u16) {
        if let Some(index) = self.find(id).map(|given| given.index) {
            self.mark(index);
        }
    }

    fn mark(&mut self, index: usize) {
        let at = HEADER + index * ATTRIBUTE;
        let bytes = self.command.as_mut_bytes().get_mut(at..).unwrap_or_default();
        if let Ok((attribute, _)) = ioctl::Attribute::mut_from_prefix(bytes) {
            attribute.flags |= VALID_OUTPUT;
        }
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
    if usize::from(given.length) <= INLINE_BYTES {
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
