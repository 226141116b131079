//! What the types rule out: each program in `misuse/` must not compile, for the reason that stands
//! beside it.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}
