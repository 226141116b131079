#![cfg_attr(fuzzing, no_main)]
//! `doorbell_fuzz::firmware` under libFuzzer; without it, a replay of files.

doorbell_fuzz::target!(doorbell_fuzz::firmware::run);
