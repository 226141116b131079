//! The structures of firmware commands, from Linux's `linux/mlx5/mlx5_ifc.h`: only the fields that
//! this firmware looks at or answers.

pub(crate) mod capability;
pub(crate) mod command;
pub(crate) mod completion_queue;
pub(crate) mod event_queue;
pub(crate) mod flow;
pub(crate) mod key;
pub(crate) mod port;
pub(crate) mod queue_pair;
pub(crate) mod work_queue;
