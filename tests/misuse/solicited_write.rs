//! What completes no receive of the peer wakes nobody there.

use doorbell::wr::{self, LocalSlice, RemoteSlice};

fn misuse(here: LocalSlice, there: RemoteSlice) {
    let _ = wr::write(here, there).unwrap().solicited();
    let _ = wr::read(here, there).unwrap().signaled().solicited();
    let _ = wr::fetch_add(here, there, 1).unwrap().solicited();
    let _ = wr::compare_swap(here, there, 1, 2).unwrap().fenced().solicited();
}

fn main() {}
