//! Runs unmodified programs of libibverbs and libmlx5 on a virtual ConnectX, in their own process.
//!
//! The dynamic loader loads this library before the C library (`LD_PRELOAD`; `doorbell shim --
//! PROGRAM` does that). Its functions stand in front of the C library's and answer for the files of an
//! RDMA device that is not there:
//!
//! - what libibverbs reads below `/sys/class/infiniband…` lies in a directory that is made up
//!   (`sysfs`), and the RDMA netlink, which it would ask first, is refused;
//! - `/dev/infiniband/uverbs0` is a descriptor of `/dev/null`, so that it can be looked at, duplicated
//!   and passed on, whose `ioctl`, `mmap` and `close` go to the virtual kernel of `doorbell-model`;
//! - a mapped register page is memory, which the NIC's thread learns from the doorbell records of
//!   ([`WatchedConnectx`](doorbell_model::WatchedConnectx)); rings and regions are the process's own;
//! - event files are descriptors that can be polled, whose `read` and `close` come here.
//!
//! Every process has a NIC of its own, and the NICs of the processes of one user share a fabric
//! ([`LocalFabric`](doorbell_model::fabric::LocalFabric)).
//!
//! With `DOORBELL_STEPPED` set to a number, the NIC has no thread: it does nothing until the program
//! calls `int doorbell_shim_run_until_idle(uint64_t most_steps)`, which it finds with `dlsym`. What then
//! happens, and in which order, is the same in every run.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | the environment variables that choose what the device is |
//! | `device` | the device, made when the process first asks for it, and its open files |
//! | `sysfs` | the directory that describes it |
//! | `interpose` | the C library's functions, by descriptor |
//! | `paths` | the C library's functions, by path |
//!
//! What does not work: a child of `fork` has no device (its NIC's thread stayed with its parent), but
//! what it executes has its own; and memory has to stay mapped for as long as it is registered, for
//! nobody can pin it.

mod device;
mod interpose;
mod paths;
mod settings;
mod sysfs;
