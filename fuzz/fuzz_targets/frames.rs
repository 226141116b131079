#![cfg_attr(fuzzing, no_main)]
//! `doorbell_fuzz::frames` under libFuzzer; without it, a replay of files.

doorbell_fuzz::target!(doorbell_fuzz::frames::run);
