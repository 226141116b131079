//! The verbs file of a virtual ConnectX, answered in this process.
//!
//! [`VirtualConnectx`] is an open verbs file: it takes the bytes of the verbs ioctls as Linux's
//! `ib_uverbs` and `mlx5_ib` take them, refuses what they refuse with their error numbers, and has
//! a [virtual NIC](crate::connectx) make the objects. Checks name the kernel's function that they
//! follow (Linux 6.12).
//!
//! | file | holds |
//! |---|---|
//! | `builder` | [`Builder`]: what the NIC and its port are |
//! | `device` | the device that files are opened on: port, events, fault injection |
//! | `control` | [`Control`]: a test's hand on the device while a driver owns the file |
//! | `file` | [`VirtualConnectx`]: the open file |
//! | `watched` | [`WatchedConnectx`]: the same, with register pages that are memory |
//! | `attributes`, `methods` | the ioctl's attributes, and which method takes which |
//! | `invoke` | the older commands, which one method invokes |
//! | `query` | device, port and identifier queries; the context |
//! | `region`, `dmabuf`, `completion_queue`, `queue_pair`, `modify`, `uar` | one kind of object each |
//! | `objects` | handles |
//! | `event_file`, `routes` | event files, and which events go where |
//! | `user` | the caller's memory |

mod attributes;
mod builder;
mod completion_queue;
mod control;
mod device;
mod dmabuf;
mod event_file;
mod file;
mod invoke;
mod methods;
mod modify;
mod objects;
mod port;
mod query;
mod queue_pair;
mod region;
mod routes;
mod uar;
mod user;
mod watched;

pub use builder::Builder;
pub use control::{Control, Objects};
pub use event_file::{VirtualEventFile, VirtualEventFiles};
pub use file::{VirtualConnectx, VirtualMemory};
pub use port::{Gid, GidKind, LinkLayer};
pub use watched::WatchedConnectx;
