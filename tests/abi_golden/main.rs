//! The layouts of both families, judged by strangers: first those in `doorbell::mlx5::abi`.
//!
//! `tests/golden/layout.c` and `encode.c` are compiled against the installed headers of rdma-core
//! and Linux. What they print is in the tree, and `tests/golden/regenerate` shows that it still is
//! what they print. Here the types have to agree with it: every size, offset and number, and every
//! byte encoded, in both directions.
//!
//! `posted.c` posts work requests with libmlx5 itself, and doorbell's work entries have to be those.
//! `posted_bnxt.txt` is what libbnxt_re posts, recorded and compared again by the lab's suite `posted`.
//!
//! The layouts in `doorbell::bnxt::abi` are judged in the same way, by `bnxt.c` and the headers in
//! Linux' sources that no package installs: `regenerate` is told where those are.
//!
//! These numbers stand in no installed header and are checked by assertions in the crate alone:
//! the words of a completion queue's doorbell record (libmlx5's `mlx5.h`, rdma-core 65), the send and
//! event queue registers, the strong fences, the completion modes other than "always", and the
//! largest entry (Linux 6.12: `doorbell.h`, `eq.c`, `qp.h`, `device.h`). Nothing else here is newer
//! than the headers of Debian 12 (rdma-core 44, Linux 6.1).

mod bnxt;
mod encode;
mod golden;
mod layout;
mod posted;
mod posted_bnxt;
