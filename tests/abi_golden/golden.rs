//! How golden texts are read and compared.

use std::collections::{BTreeMap, BTreeSet};

/// The lines that only one of the two has, each with a word on which. `Ok` if there are none.
pub fn compare(golden: &str, ours: &[String]) -> Result<(), String> {
    let theirs: BTreeSet<&str> = golden.lines().collect();
    let ours: BTreeSet<&str> = ours.iter().map(String::as_str).collect();
    let missing = theirs.difference(&ours).map(|line| format!("C only:    {line}"));
    let extra = ours.difference(&theirs).map(|line| format!("Rust only: {line}"));
    let differences: Vec<String> = missing.chain(extra).collect();
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
}

/// One line of `encode.txt`: what was encoded, from which values, into which bytes.
pub struct Case<'a> {
    pub line: &'a str,
    pub kind: &'a str,
    values: BTreeMap<&'a str, u64>,
    pub bytes: Vec<u8>,
}

impl<'a> Case<'a> {
    /// Reads `kind key=0x1 ... : 00 01 ...`.
    pub fn parse(line: &'a str) -> Result<Case<'a>, String> {
        let wrong = |what: &str| format!("{what} in golden line {line:?}");
        let (head, bytes) = line.split_once(" : ").ok_or_else(|| wrong("no bytes"))?;
        let mut words = head.split(' ');
        let kind = words.next().ok_or_else(|| wrong("no kind"))?;
        let mut values = BTreeMap::new();
        for word in words {
            let (key, value) = word.split_once("=0x").ok_or_else(|| wrong("no key=0xvalue"))?;
            let value = u64::from_str_radix(value, 16).map_err(|_| wrong("no number"))?;
            if values.insert(key, value).is_some() {
                return Err(wrong("the same key twice"));
            }
        }
        let bytes = bytes
            .split(' ')
            .map(|byte| u8::from_str_radix(byte, 16).map_err(|_| wrong("no byte")))
            .collect::<Result<_, _>>()?;
        Ok(Case { line, kind, values, bytes })
    }

    /// The value of `key`, which has to be there and to fit.
    pub fn get<T: TryFrom<u64>>(&self, key: &str) -> T {
        let value = *self.values.get(key).unwrap_or_else(|| panic!("no {key} in {}", self.line));
        T::try_from(value).unwrap_or_else(|_| panic!("{key} does not fit in {}", self.line))
    }

    /// A value of 0 or 1.
    pub fn flag(&self, key: &str) -> bool {
        match self.get::<u8>(key) {
            0 => false,
            1 => true,
            _ => panic!("{key} is no flag in {}", self.line),
        }
    }

    /// The value of `key`, if it is there.
    pub fn find(&self, key: &str) -> Option<u64> {
        self.values.get(key).copied()
    }
}

#[test]
fn comparison_accepts_equal_lines_in_any_order() {
    let ours = ["struct b size=2".to_string(), "struct a size=1".to_string()];
    assert_eq!(compare("struct a size=1\nstruct b size=2\n", &ours), Ok(()));
}

#[test]
fn comparison_names_a_wrong_line() {
    let ours = ["field a.f offset=4 size=4".to_string()];
    assert_eq!(
        compare("field a.f offset=8 size=4\n", &ours),
        Err("C only:    field a.f offset=8 size=4\nRust only: field a.f offset=4 size=4".into())
    );
}

#[test]
fn comparison_names_a_missing_and_an_extra_line() {
    let ours = ["number A=0x1".to_string(), "number C=0x3".to_string()];
    assert_eq!(
        compare("number A=0x1\nnumber B=0x2\n", &ours),
        Err("C only:    number B=0x2\nRust only: number C=0x3".into())
    );
}

#[test]
fn case_is_read() {
    let case = Case::parse("data length=0x10 lkey=0xab : 00 0f ff").expect("a good line");
    assert_eq!(case.kind, "data");
    assert_eq!(case.get::<u32>("length"), 0x10);
    assert_eq!(case.find("lkey"), Some(0xab));
    assert_eq!(case.find("addr"), None);
    assert_eq!(case.bytes, [0x00, 0x0f, 0xff]);
}

#[test]
fn bad_case_is_refused() {
    for line in
        ["", "data", "data length : 00", "data a=0x1 a=0x1 : 00", "data a=0xg : 00", "d : 0g"]
    {
        assert!(Case::parse(line).is_err(), "{line:?}");
    }
}
