//! Inline bytes are copied into the ring: no message can be received into them.

use doorbell::wr::{self, Inline};

fn main() {
    let _ = wr::receive(Inline([0; 8]));
}
