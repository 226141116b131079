//! Model checking of the shipped posting and polling code. Built only with `--cfg loom`.
#![cfg(loom)]
