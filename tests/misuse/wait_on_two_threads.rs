//! One thread at a time waits on an event channel.

use doorbell::mlx5::EventChannel;
use doorbell_hal::uverbs::Uverbs;
use std::time::Duration;

/// Each thread waits through its reference.
fn on_two_threads<V: Uverbs>(_first: &mut EventChannel<V>, _second: &mut EventChannel<V>) {}

fn misuse<V: Uverbs>(mut channel: EventChannel<V>) {
    on_two_threads(&mut channel, &mut channel);
}

fn shared<V: Uverbs>(channel: &EventChannel<V>) {
    let _ = channel.wait(Duration::ZERO);
}

fn main() {}
