//! What the types rule out: each program in `misuse/` must not compile, for the reason that stands
//! beside it.

#[test]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/misuse/*.rs");
    cases.compile_fail("tests/misuse/bnxt/*.rs");
}
