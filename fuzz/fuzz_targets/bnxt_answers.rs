#![cfg_attr(fuzzing, no_main)]
//! `doorbell_fuzz::bnxt_answers` under libFuzzer; without it, a replay of files.

doorbell_fuzz::target!(doorbell_fuzz::bnxt_answers::run);
