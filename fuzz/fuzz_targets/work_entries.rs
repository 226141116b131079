#![cfg_attr(fuzzing, no_main)]
//! `doorbell_fuzz::work_entries` under libFuzzer; without it, a replay of files.

doorbell_fuzz::target!(doorbell_fuzz::work_entries::run);
