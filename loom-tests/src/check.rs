//! Running a model, as it is and with a mutant.

use doorbell_hal::sync::mutant::{self, Mutant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Checks that `model` holds, in every order of its threads.
pub fn holds(model: impl Fn() + Send + Sync + 'static) {
    mutant::set(None);
    loom::model(model);
}

/// How a model fails.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// Two accesses of one cell are not ordered.
    Race,
    /// Threads wait that nobody wakes.
    Deadlock,
    /// An assertion of the model with these words.
    Assertion(&'static str),
}

impl Failure {
    fn words(self) -> &'static str {
        match self {
            Failure::Race => "Causality violation",
            Failure::Deadlock => "deadlock",
            Failure::Assertion(words) => words,
        }
    }
}

/// Checks that `model` does not hold with `mutant`, and fails as `failure`.
pub fn catches(mutant: Mutant, failure: Failure, model: impl Fn() + Send + Sync + 'static) {
    mutant::set(Some(mutant));
    let outcome = catch_unwind(AssertUnwindSafe(|| loom::model(model)));
    mutant::set(None);
    let Err(panic) = outcome else { panic!("{mutant:?} was not noticed") };
    let text = panic.downcast_ref::<&str>().copied();
    let said = text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    assert!(said.contains(failure.words()), "{mutant:?} is no {failure:?} but: {said}");
}

/// Whether some order of a model's threads got to where the model is interesting.
#[derive(Clone, Default)]
pub struct Reached(Arc<AtomicBool>);

impl Reached {
    /// Notes that this order got there.
    pub fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Fails if no order did.
    pub fn check(&self) {
        assert!(self.0.load(Ordering::Relaxed), "no order of the threads got to the point");
    }
}
