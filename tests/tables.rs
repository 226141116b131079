//! `README.md` beside this file says which test proves what: each test that it names exists.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The names of all functions, files and directories under `directory`.
fn names(directory: &Path, into: &mut HashSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        into.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        if path.is_dir() {
            names(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let functions = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
            let name = |function: &str| {
                function.split(['(', '<']).next().map(|name| name.trim().to_owned())
            };
            into.extend(functions.filter_map(name));
        }
    }
}

#[test]
fn every_test_that_the_tables_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known = HashSet::new();
    for directory in ["tests", "src", "hal/src"] {
        names(&root.join(directory), &mut known);
    }
    let readme = fs::read_to_string(root.join("tests/README.md")).unwrap();
    let mut named = 0;
    // Names of tests are sentences: whatever has an underscore or two between backticks.
    for name in readme.split('`').skip(1).step_by(2) {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.chars().all(is_name) && name.matches('_').count() >= 2 {
            named += 1;
            assert!(known.contains(name), "no test is called {name}");
        }
    }
    assert!(named > 80, "only {named} names were found");
}
