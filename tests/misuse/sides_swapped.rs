//! A peer's memory is not this side's.

use doorbell::wr::{self, LocalSlice, RemoteSlice};

fn misuse(here: LocalSlice, there: RemoteSlice) {
    let _ = wr::write(there, here);
    let _ = wr::send(there);
}

fn main() {}
