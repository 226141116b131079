#![cfg_attr(fuzzing, no_main)]
//! `doorbell_fuzz::netxtreme_firmware` under libFuzzer; without it, a replay of files.

doorbell_fuzz::target!(doorbell_fuzz::netxtreme_firmware::run);
