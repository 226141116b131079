//! Inline bytes are copied into the ring: nothing can be put into them.

use doorbell::wr::{self, Inline, RemoteSlice};

fn misuse(there: RemoteSlice) {
    let _ = wr::read(Inline([0; 8]), there);
}

fn main() {}
