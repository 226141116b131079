//! A doorbell's parts are made by what checks them, and a doorbell of its parts.

use doorbell::bnxt::abi::doorbell::{Doorbell, Position, QueueNumber, Toggle};

fn a_number_that_is_too_long() -> QueueNumber {
    QueueNumber(1 << 20)
}

fn a_position_in_another_field() -> Position {
    Position(1 << 25)
}

fn a_toggle_of_three_bits() -> Toggle {
    Toggle(4)
}

fn a_place_instead_of_a_position(queue: QueueNumber) -> u64 {
    Doorbell::send(queue).to_memory(7)
}

fn main() {}
