//! The page of doorbell registers (UAR, user access region) that a process maps.
//!
//! From Linux's `linux/mlx5/doorbell.h` (`MLX5_CQ_DOORBELL`, `MLX5_BF_OFFSET`), `linux/mlx5/device.h`
//! (`MLX5_BFREGS_PER_UAR`) and `mlx5/core/eq.c` (`MLX5_EQ_DOORBELL_OFFSET`). All big-endian.

use core::mem::offset_of;
use volatile_register::WO;

/// Bytes of the page, whatever the size of the system's pages.
pub const BYTES: usize = size_of::<Uar>();

/// The page.
#[repr(C)]
pub struct Uar {
    reserved_00: [u8; 0x20],
    /// Arms a completion queue: an [`ArmDoorbell`](super::doorbell::ArmDoorbell).
    pub cq_arm: WO<u64>,
    reserved_28: [u8; 0x18],
    /// Moves an event queue's consumer index and arms it. The kernel's.
    pub eq_arm: WO<u32>,
    reserved_44: [u8; 4],
    /// Moves an event queue's consumer index. The kernel's.
    pub eq_consumer: WO<u32>,
    reserved_4c: [u8; 0x7b4],
    /// The send registers. The first two are for queue pairs of processes; the last two are the
    /// kernel's.
    pub send: [SendRegister; 4],
}

/// A send register (BlueFlame): two halves of equal size, to be used in turn. An 8-byte store of a
/// [`SendDoorbell`](super::doorbell::SendDoorbell) to the start of a half rings the doorbell; a copy
/// of a whole entry to it (in a write-combining mapping) also spares the NIC the fetch.
#[repr(C)]
pub struct SendRegister {
    /// The halves, each of the size [`SEND_HALF_BYTES`].
    pub halves: [[WO<u64>; 32]; 2],
}

layout!(Uar: size 0x1000, align 8, {
    cq_arm: 0x20, eq_arm: 0x40, eq_consumer: 0x48, send: 0x800,
});
layout!(SendRegister: size 512, align 8, { halves: 0 });

/// The offset in bytes of the register that arms completion queues (`MLX5_CQ_DOORBELL`).
pub const CQ_ARM_OFFSET: usize = offset_of!(Uar, cq_arm);

/// The offset in bytes of the first send register (`MLX5_BF_OFFSET`).
pub const SEND_OFFSET: usize = offset_of!(Uar, send);

/// Bytes from one send register to the next; the kernel reports them as `bf_reg_size`.
pub const SEND_REGISTER_BYTES: usize = size_of::<SendRegister>();

/// Bytes of each half of a send register.
pub const SEND_HALF_BYTES: usize = SEND_REGISTER_BYTES / 2;

/// The send registers of a page that queue pairs of processes use (`MLX5_NON_FP_BFREGS_PER_UAR`).
pub const SEND_REGISTERS: usize = 2;
