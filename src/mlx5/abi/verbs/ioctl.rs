//! The verbs ioctl: a header, then attributes.
//!
//! From Linux's `rdma/rdma_user_ioctl_cmds.h`.

use super::method::Method;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The ioctl's request number (`RDMA_VERBS_IOCTL`): read and write, magic 0x1b, number 1, with the
/// size of the header alone.
pub const RDMA_VERBS_IOCTL: u32 =
    READ_WRITE << 30 | (size_of::<Header>() as u32) << 16 | 0x1b << 8 | 1;

/// The direction bits of an ioctl that reads and writes (`_IOWR`), in the numbering of x86 and Arm.
const READ_WRITE: u32 = 3;

/// The number of the mlx5 driver in [`Header::driver_id`] (`RDMA_DRIVER_MLX5`).
pub const DRIVER_MLX5: u32 = 1;

/// What a command starts with (`struct ib_uverbs_ioctl_hdr`). The attributes follow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Header {
    /// Bytes of the whole command: header and attributes.
    pub length: u16,
    /// The kind of object.
    pub object_id: u16,
    /// What to do with it.
    pub method_id: u16,
    /// The number of attributes.
    pub num_attrs: u16,
    /// 0.
    pub reserved1: u64,
    /// The driver that the caller takes the device for; [`DRIVER_MLX5`].
    pub driver_id: u32,
    /// 0.
    pub reserved2: u32,
}

layout!(Header: size 24, align 8, {
    length: 0, object_id: 2, method_id: 4, num_attrs: 6, reserved1: 8, driver_id: 16,
    reserved2: 20,
});

impl Header {
    /// The header of a command with `num_attrs` attributes for a device of the mlx5 driver, or
    /// `None` for more attributes than a command can hold.
    pub fn new(method: Method, num_attrs: usize) -> Option<Header> {
        let length = size_of::<Header>() + num_attrs.checked_mul(size_of::<Attribute>())?;
        Some(Header {
            length: u16::try_from(length).ok()?,
            object_id: method.object,
            method_id: method.method,
            num_attrs: u16::try_from(num_attrs).ok()?,
            reserved1: 0,
            driver_id: DRIVER_MLX5,
            reserved2: 0,
        })
    }

    /// The method that the header names.
    pub const fn method(&self) -> Method {
        Method { object: self.object_id, method: self.method_id }
    }
}

/// The kernel refuses a command if it does not know this attribute (`UVERBS_ATTR_F_MANDATORY`).
pub const MANDATORY: u16 = 1 << 0;

/// Set by the kernel: it wrote what the attribute points to (`UVERBS_ATTR_F_VALID_OUTPUT`).
pub const VALID_OUTPUT: u16 = 1 << 1;

/// One argument of a command (`struct ib_uverbs_attr`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Attribute {
    /// Which argument: a constant of one of [`method`](super::method)'s modules.
    pub attr_id: u16,
    /// Bytes of the data; 0 for handles and descriptors.
    pub len: u16,
    /// [`MANDATORY`] and [`VALID_OUTPUT`].
    pub flags: u16,
    /// The choice, in attributes that are one of several; else 0.
    pub attr_data: u16,
    /// The data itself, a handle, a descriptor, or the data's address.
    ///
    /// The kernel takes data of at most [`INLINE_BYTES`] from here; longer data, and all that it
    /// writes, is at the address that this holds.
    pub data: u64,
}

layout!(Attribute: size 16, align 8, { attr_id: 0, len: 2, flags: 4, attr_data: 6, data: 8 });

/// Input of at most this many bytes travels in [`Attribute::data`] itself.
pub const INLINE_BYTES: usize = size_of::<u64>();

impl Attribute {
    /// A handle of an object that the command uses or destroys.
    pub const fn handle(attr_id: u16, handle: u32) -> Attribute {
        Attribute { attr_id, len: 0, flags: MANDATORY, attr_data: 0, data: handle as u64 }
    }

    /// Room for the handle (or the descriptor) of an object that the command makes. The kernel
    /// writes it to [`data`](Self::data).
    pub const fn new_handle(attr_id: u16) -> Attribute {
        Attribute::handle(attr_id, 0)
    }

    /// A descriptor that the command uses: an event file.
    pub const fn descriptor(attr_id: u16, descriptor: i32) -> Attribute {
        Attribute {
            attr_id,
            len: 0,
            flags: MANDATORY,
            attr_data: 0,
            data: descriptor as i64 as u64,
        }
    }

    /// 4 bytes of input.
    pub fn input_u32(attr_id: u16, value: u32) -> Attribute {
        let mut data = [0; INLINE_BYTES];
        let (low, _) = data.split_at_mut(size_of::<u32>());
        low.copy_from_slice(&value.to_ne_bytes());
        Attribute {
            attr_id,
            len: size_of::<u32>() as u16,
            flags: MANDATORY,
            attr_data: 0,
            data: u64::from_ne_bytes(data),
        }
    }

    /// 8 bytes of input; also how a constant or a set of flags is passed.
    pub const fn input_u64(attr_id: u16, value: u64) -> Attribute {
        Attribute {
            attr_id,
            len: size_of::<u64>() as u16,
            flags: MANDATORY,
            attr_data: 0,
            data: value,
        }
    }

    /// More than [`INLINE_BYTES`] bytes of input, at an address.
    pub const fn input_at(attr_id: u16, address: u64, len: u16) -> Attribute {
        Attribute { attr_id, len, flags: MANDATORY, attr_data: 0, data: address }
    }

    /// Room for output, at an address.
    pub const fn output_at(attr_id: u16, address: u64, len: u16) -> Attribute {
        Attribute { attr_id, len, flags: MANDATORY, attr_data: 0, data: address }
    }

    /// The same argument, which a kernel that does not know it may ignore.
    pub const fn optional(self) -> Attribute {
        Attribute { flags: self.flags & !MANDATORY, ..self }
    }
}
