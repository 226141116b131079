//! `doorbell shim`.

use crate::doorbell;

#[test]
fn a_program_runs_with_the_library_and_its_exit_code_is_the_program_s() {
    let print = "echo $LD_PRELOAD $DOORBELL_LINK $DOORBELL_FABRIC; exit 7";
    let run = ["shim", "--link", "infiniband", "--fabric", "/some/where", "--", "sh", "-c", print];
    let ran = doorbell(&run);
    assert_eq!(ran.code, Some(7), "{}", ran.err);
    for part in ["libdoorbell_shim.so", "infiniband", "/some/where"] {
        assert!(ran.out.contains(part), "{part} is not in {}", ran.out);
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let error = doorbell(&["shim", "--", "/no/such/program"]).error(1);
    assert!(error.contains("cannot start /no/such/program"), "{error}");
}

#[test]
fn a_program_is_needed() {
    assert!(doorbell(&["shim"]).error(2).contains("<PROGRAM>"));
    assert!(
        doorbell(&["shim", "--link", "token-ring", "--", "true"]).error(2).contains("ethernet")
    );
}
