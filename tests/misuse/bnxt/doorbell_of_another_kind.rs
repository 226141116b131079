//! A doorbell says what its kind says: one that arms carries a toggle, and no other does.

use doorbell::bnxt::abi::doorbell::{Arms, Doorbell, Position, QueueNumber, Toggle};

fn a_toggle_where_there_is_none(queue: QueueNumber, toggle: Toggle) -> u64 {
    Doorbell::send(queue).to_memory(Position::START, toggle)
}

fn an_arm_without_its_toggle(queue: QueueNumber) -> u64 {
    Doorbell::completion_arm(queue).to_memory(Position::START)
}

fn a_position_where_there_is_none(queue: QueueNumber, toggle: Toggle) -> u64 {
    Doorbell::completion_arm_enable(queue).to_memory(Position::START, toggle)
}

fn a_send_that_arms(queue: QueueNumber) -> Doorbell<Arms> {
    Doorbell::send(queue)
}

fn main() {}
