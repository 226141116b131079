#![cfg_attr(fuzzing, no_main)]
//! `doorbell_fuzz::packet_bytes` under libFuzzer; without it, a replay of files.

doorbell_fuzz::target!(doorbell_fuzz::packet_bytes::run);
