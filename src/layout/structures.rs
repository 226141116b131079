//! Structures that are C structures.

/// A C structure as C has it: what the golden tests compare.
#[derive(Clone, Copy, Debug)]
pub struct CStructure {
    /// The structure's name.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// The name, the offset and the size of each field.
    pub fields: &'static [(&'static str, usize, usize)],
}

/// Structures of plain bytes whose fields have the C structure's names and offsets, checked when the
/// crate compiles, and `STRUCTURES` that lists them for the golden tests. A field that C names
/// otherwise says how.
macro_rules! structures {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident, $c:literal, size $size:literal {
            $($(#[$field_meta:meta])* $field:ident $(= $c_field:literal)?: $type:ty, $offset:literal;)*
        }
    )*) => {
        $(
            $(#[$meta])*
            #[doc = concat!("\n\n`struct ", $c, "`, ", stringify!($size), " bytes.")]
            #[doc(alias = $c)]
            #[derive(
                Clone, Copy, Debug, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes,
                zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
            )]
            #[repr(C)]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $type,)*
            }

            layout!($name: size $size, align 1, { $($field: $offset),* });
        )*

        /// Every structure of this module, as C has it.
        pub const STRUCTURES: &[$crate::layout::CStructure] = &[$(
            $crate::layout::CStructure {
                name: $c,
                size: $size,
                fields: &[$((
                    structures!(@name $field $(, $c_field)?),
                    $offset,
                    core::mem::size_of::<$type>(),
                )),*],
            }
        ),*];
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident, $c_field:literal) => { $c_field };
}
