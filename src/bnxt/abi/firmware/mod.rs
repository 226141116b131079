//! The messages of the firmware channel (HWRM): requests that the driver writes to the function's
//! registers, and answers that the firmware writes to memory.
//!
//! From Linux' `bnxt_hsi.h`.
