//! How a layout is pinned.

/// Asserts, at compile time, a type's size, its alignment and the offset of each of its fields.
macro_rules! layout {
    ($type:ty: size $size:literal, align $align:literal, { $($field:ident: $offset:literal),* $(,)? }) => {
        static_assertions::const_assert_eq!(core::mem::size_of::<$type>(), $size);
        static_assertions::const_assert_eq!(core::mem::align_of::<$type>(), $align);
        $(static_assertions::const_assert_eq!(core::mem::offset_of!($type, $field), $offset);)*
    };
}
