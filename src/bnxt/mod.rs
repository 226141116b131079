//! BCM57608 NICs (bnxt), driven over PCI with no kernel driver at all.
//!
//! A NIC is one PCI function that this process owns: it resets it, gives its firmware the memory that
//! it works in, and rings its doorbells.
//!
//! References: Linux' `drivers/net/ethernet/broadcom/bnxt` and `drivers/infiniband/hw/bnxt_re`, and
//! rdma-core's `providers/bnxt_re`, for the formats ([`abi`]).

pub mod abi;
