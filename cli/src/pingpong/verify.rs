//! The bytes of messages: made by a seed, different in each, and checked one by one.
//!
//! Before a message is sent, its bytes are put where it comes from, and the opposite of each where
//! it goes to: a byte that did not move is as wrong as one that moved badly. Around the memory that
//! it goes to lie guard bytes that must stay as they are.

use crate::failure::Failure;
use doorbell::family::Region;
use doorbell::wr::OutOfBounds;

/// Guard bytes before a message's memory, and after it. A multiple of 8, for the words of atomics.
pub const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0xa5;

/// Bytes that are made, or checked, at a time.
const CHUNK: usize = 4096;

/// Memory that messages come from and go to.
pub trait Memory {
    /// Copies the bytes from `at` on into `bytes`.
    fn read_at(&self, at: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds>;

    /// Copies `bytes` to the bytes from `at` on.
    fn write_at(&self, at: usize, bytes: &[u8]) -> Result<(), OutOfBounds>;
}

impl<R: Region> Memory for R {
    fn read_at(&self, at: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        Region::read_at(self, at, bytes)
    }

    fn write_at(&self, at: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        Region::write_at(self, at, bytes)
    }
}

/// Which bytes a message has.
#[derive(Clone, Copy, Debug)]
pub struct Contents(u64);

impl Contents {
    /// The bytes of message `number` under `seed`.
    pub fn new(seed: u64, number: u64) -> Self {
        // Neighbouring numbers become seeds that are far apart.
        Contents(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Numbers that go with the message, and are no part of it.
    pub fn numbers(self) -> fastrand::Rng {
        fastrand::Rng::with_seed(!self.0)
    }

    fn bytes(self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.0)
    }
}

/// Makes messages and checks them. Holds the room that it needs for that.
pub struct Verifier {
    expected: Vec<u8>,
    found: Vec<u8>,
}

impl Verifier {
    pub fn new() -> Self {
        Verifier { expected: vec![0; CHUNK], found: vec![0; CHUNK] }
    }

    /// Puts the `len` bytes of a message where it comes from, and answers the last of them.
    pub fn put(
        &mut self,
        source: &impl Memory,
        len: usize,
        contents: Contents,
    ) -> Result<u8, OutOfBounds> {
        let mut bytes = contents.bytes();
        for at in (0..len).step_by(CHUNK) {
            let chunk = &mut self.expected[..CHUNK.min(len - at)];
            bytes.fill(chunk);
            source.write_at(GUARD + at, chunk)?;
        }
        let last = len.saturating_sub(1) % CHUNK;
        Ok(self.expected[last])
    }

    /// Puts the opposite of each byte of a message where it goes to, and the guards around it. Answers
    /// the last byte of the message.
    pub fn put_opposite(
        &mut self,
        target: &impl Memory,
        len: usize,
        contents: Contents,
    ) -> Result<u8, OutOfBounds> {
        let mut bytes = contents.bytes();
        for at in (0..len).step_by(CHUNK) {
            let chunk = &mut self.expected[..CHUNK.min(len - at)];
            bytes.fill(chunk);
            chunk.iter_mut().for_each(|byte| *byte = !*byte);
            target.write_at(GUARD + at, chunk)?;
        }
        target.write_at(0, &[GUARD_BYTE; GUARD])?;
        target.write_at(GUARD + len, &[GUARD_BYTE; GUARD])?;
        let last = len.saturating_sub(1) % CHUNK;
        Ok(!self.expected[last])
    }

    /// Checks each byte of a message where it went to, and the guards around it. Answers how many
    /// bytes of the message those are.
    pub fn check(
        &mut self,
        target: &impl Memory,
        len: usize,
        contents: Contents,
    ) -> Result<u64, Failure> {
        let mut bytes = contents.bytes();
        for at in (0..len).step_by(CHUNK) {
            let expected = &mut self.expected[..CHUNK.min(len - at)];
            let found = &mut self.found[..expected.len()];
            bytes.fill(expected);
            target.read_at(GUARD + at, found)?;
            if let Some(wrong) = first_difference(expected, found) {
                return Err(Failure::Byte {
                    at: (at + wrong) as u64,
                    expected: expected[wrong],
                    found: found[wrong],
                });
            }
        }
        self.check_guards(target, len)?;
        Ok(len as u64)
    }

    /// Checks that nothing wrote beside the `len` bytes of a message.
    pub fn check_guards(&mut self, target: &impl Memory, len: usize) -> Result<(), Failure> {
        let places = [
            ("a byte before the message's memory", 0),
            ("a byte after the message's memory", GUARD + len),
        ];
        for (what, at) in places {
            let found = &mut self.found[..GUARD];
            target.read_at(at, found)?;
            if let Some(wrong) = first_difference(&[GUARD_BYTE; GUARD], found) {
                let (expected, found) = (GUARD_BYTE, found[wrong]);
                let hex = |byte| format!("{byte:#04x}");
                return Err(Failure::Wrong { what, expected: hex(expected), found: hex(found) });
            }
        }
        Ok(())
    }
}

fn first_difference(expected: &[u8], found: &[u8]) -> Option<usize> {
    // A comparison of the whole is much faster than one of each byte.
    if expected == found {
        return None;
    }
    expected.iter().zip(found).position(|(expected, found)| expected != found)
}

/// Fails if something that must be `expected` is not.
pub fn same<T: PartialEq + std::fmt::Debug>(
    what: &'static str,
    expected: T,
    found: T,
) -> Result<(), Failure> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
    Err(Failure::Wrong { what, expected, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    struct Plain(RefCell<Vec<u8>>);

    impl Plain {
        fn new(len: usize) -> Self {
            Plain(RefCell::new(vec![0; len + 2 * GUARD]))
        }
    }

    impl Memory for Plain {
        fn read_at(&self, at: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
            bytes.copy_from_slice(&self.0.borrow()[at..at + bytes.len()]);
            Ok(())
        }

        fn write_at(&self, at: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
            self.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
    }

    const LENGTHS: [usize; 7] = [1, 8, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 9];

    /// A message of `len` bytes that has moved.
    fn moved(len: usize, contents: Contents) -> (Verifier, Plain) {
        let mut verifier = Verifier::new();
        let (source, target) = (Plain::new(len), Plain::new(len));
        verifier.put_opposite(&target, len, contents).unwrap();
        let last = verifier.put(&source, len, contents).unwrap();
        assert_eq!(last, source.0.borrow()[GUARD + len - 1]);
        target.0.borrow_mut()[GUARD..GUARD + len]
            .copy_from_slice(&source.0.borrow()[GUARD..GUARD + len]);
        (verifier, target)
    }

    #[test]
    fn a_message_that_moved_is_right_and_each_byte_of_it_counted() {
        for len in LENGTHS {
            let contents = Contents::new(7, 3);
            let (mut verifier, target) = moved(len, contents);
            assert_eq!(verifier.check(&target, len, contents).unwrap(), len as u64);
        }
    }

    #[test]
    fn one_flipped_bit_anywhere_is_noticed_and_located() {
        for len in LENGTHS {
            let contents = Contents::new(7, 3);
            let (mut verifier, target) = moved(len, contents);
            for at in [0, len / 2, len - 1] {
                target.0.borrow_mut()[GUARD + at] ^= 0x10;
                let failure = verifier.check(&target, len, contents).unwrap_err();
                let Failure::Byte { at: noticed, expected, found } = failure else {
                    panic!("{failure}")
                };
                assert_eq!((noticed, found), (at as u64, expected ^ 0x10));
                target.0.borrow_mut()[GUARD + at] ^= 0x10;
            }
            assert!(verifier.check(&target, len, contents).is_ok());
        }
    }

    #[test]
    fn each_byte_that_did_not_move_is_noticed() {
        let (len, contents) = (256, Contents::new(7, 3));
        let (mut verifier, target) = moved(len, contents);
        let opposite = Plain::new(len);
        verifier.put_opposite(&opposite, len, contents).unwrap();
        for at in 0..len {
            let right = target.0.borrow()[GUARD + at];
            target.0.borrow_mut()[GUARD + at] = opposite.0.borrow()[GUARD + at];
            let failure = verifier.check(&target, len, contents).unwrap_err();
            assert!(matches!(failure, Failure::Byte { at: noticed, .. } if noticed == at as u64));
            target.0.borrow_mut()[GUARD + at] = right;
        }
    }

    #[test]
    fn a_byte_beside_the_message_is_noticed() {
        let (len, contents) = (100, Contents::new(7, 3));
        let (mut verifier, target) = moved(len, contents);
        for (at, what) in [(0, "before"), (GUARD - 1, "before"), (GUARD + len, "after")] {
            target.0.borrow_mut()[at] ^= 1;
            let failure = verifier.check(&target, len, contents).unwrap_err().to_string();
            assert!(failure.contains(what), "{failure}");
            target.0.borrow_mut()[at] ^= 1;
        }
    }

    #[test]
    fn another_message_is_not_this_one() {
        let (len, contents) = (64, Contents::new(7, 3));
        let (mut verifier, target) = moved(len, contents);
        for other in [Contents::new(7, 2), Contents::new(7, 4), Contents::new(8, 3)] {
            assert!(verifier.check(&target, len, other).is_err());
        }
    }
}
