#![cfg_attr(fuzzing, no_main)]
//! `doorbell_fuzz::bnxt_completion` under libFuzzer; without it, a replay of files.

doorbell_fuzz::target!(doorbell_fuzz::bnxt_completion::run);
