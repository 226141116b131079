//! Fields of the structures that firmware commands are made of.
//!
//! The interface counts bits from the first byte on, each byte's most significant bit first; a
//! field of several bytes is therefore big-endian. A structure is a module of [`Field`]s
//! (`structure!`), as its C header (`mlx5_ifc.h`) is a struct of bits: field by field, with the
//! numbers checked when this crate compiles. Commands come from a guest and may be too short: a
//! field beyond the end is read as zero, and writing it does nothing.

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    bit: u32,
    width: u32,
}

impl Field {
    /// The field of `width` bits, 1 to 64, from bit `bit` on.
    pub(crate) const fn new(bit: u32, width: u32) -> Self {
        assert!(width >= 1 && width <= 64);
        Field { bit, width }
    }

    /// One past its last bit.
    pub(crate) const fn end(self) -> u32 {
        self.bit + self.width
    }

    /// The same field of a structure that begins `bytes` into another.
    pub(crate) const fn within(self, bytes: usize) -> Self {
        Field { bit: self.bit + bytes as u32 * 8, width: self.width }
    }

    /// The field's value.
    pub(crate) fn get(self, bytes: &[u8]) -> u64 {
        let (first, last, below) = self.span();
        let gathered = (first..=last)
            .fold(0u128, |value, at| value << 8 | u128::from(bytes.get(at).copied().unwrap_or(0)));
        (gathered >> below) as u64 & self.ones()
    }

    /// The field's value, of which the low 32 bits are meant.
    pub(crate) fn get32(self, bytes: &[u8]) -> u32 {
        self.get(bytes) as u32
    }

    /// Whether the field is not zero.
    pub(crate) fn is_set(self, bytes: &[u8]) -> bool {
        self.get(bytes) != 0
    }

    /// Writes the low bits of `value`, as many as the field has.
    pub(crate) fn set(self, bytes: &mut [u8], value: u64) {
        let (first, last, below) = self.span();
        let value = u128::from(value & self.ones()) << below;
        let mask = u128::from(self.ones()) << below;
        for at in first..=last {
            let shift = (last - at) * 8;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = *byte & !((mask >> shift) as u8) | (value >> shift) as u8;
            }
        }
    }

    /// Copies the field from one structure to another of the same kind.
    pub(crate) fn copy(self, from: &[u8], to: &mut [u8]) {
        self.set(to, self.get(from));
    }

    /// The first and last byte that it touches, and how many bits of the last are below it.
    fn span(self) -> (usize, usize, u32) {
        let end = self.bit + self.width - 1;
        ((self.bit / 8) as usize, (end / 8) as usize, 7 - end % 8)
    }

    fn ones(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }
}

/// A structure of the interface: its size in bytes, and its fields by first bit and width.
macro_rules! structure {
    ($(
        $(#[$doc:meta])*
        $name:ident [$bytes:literal] { $($field:ident: $bit:literal, $width:literal;)* }
    )*) => {
        $(
            $(#[$doc])*
            #[allow(dead_code)] // Not every structure's size is asked for.
            pub(crate) mod $name {
                use crate::connectx::firmware::field::Field;
                pub(crate) const BYTES: usize = $bytes;
                $(
                    pub(crate) const $field: Field = Field::new($bit, $width);
                    const _: () = assert!($field.end() <= $bytes * 8);
                )*
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    use super::Field;
    use proptest::prelude::*;

    #[test]
    fn bits_are_counted_from_the_most_significant_of_the_first_byte() {
        let bytes = [0x80, 0x12, 0x34, 0x56, 0, 0, 0, 0, 0xff];
        assert_eq!(Field::new(0, 1).get(&bytes), 1);
        assert_eq!(Field::new(1, 7).get(&bytes), 0);
        assert_eq!(Field::new(8, 24).get(&bytes), 0x12_3456);
        assert_eq!(Field::new(12, 8).get(&bytes), 0x23);
        assert_eq!(Field::new(5, 64).get(&bytes), 0x0246_8ac0_0000_001f);
        assert_eq!(Field::new(8, 64).get(&bytes), 0x1234_5600_0000_00ff);
    }

    proptest! {
        #[test]
        fn a_value_is_read_back_and_its_neighbours_are_left_alone(
            before in prop::collection::vec(any::<u8>(), 0..20),
            bit in 0u32..130,
            width in 1u32..=64,
            value: u64,
        ) {
            let field = Field::new(bit, width);
            let mut bytes = before.clone();
            field.set(&mut bytes, value);
            if (bit + width) as usize <= before.len() * 8 {
                prop_assert_eq!(field.get(&bytes), value & (u64::MAX >> (64 - width)));
            }
            for other in 0..before.len() as u32 * 8 {
                if !(bit..bit + width).contains(&other) {
                    let other = Field::new(other, 1);
                    prop_assert_eq!(other.get(&before), other.get(&bytes));
                }
            }
        }
    }
}
