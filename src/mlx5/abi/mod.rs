//! The layouts that the driver shares with the NIC and with the kernel.
