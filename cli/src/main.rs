//! The `doorbell` program.

fn main() {}
