//! Virtual RDMA NICs.
