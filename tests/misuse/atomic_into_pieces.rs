//! An atomic answers 8 bytes, into one piece.

use doorbell::wr::{self, LocalSlice, RemoteSlice};

fn misuse(here: LocalSlice, there: RemoteSlice) {
    let _ = wr::fetch_add([here, here], there, 1);
}

fn main() {}
