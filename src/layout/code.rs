//! Numbers that name something: how they become enums, and back.

use core::fmt;

/// A number that is not one of those its field may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unknown {
    /// What the number should have named, such as "completion opcode".
    pub what: &'static str,
    /// The number.
    pub value: u64,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} is no known {}", self.value, self.what)
    }
}

impl core::error::Error for Unknown {}

/// An enum whose variants carry the numbers of a C enum, with conversions both ways. Each variant
/// names its C symbol, which is also how rustdoc's search finds it; `SYMBOLS` lists them for the
/// golden tests.
///
/// The first form holds the listed numbers only: `TryFrom` answers [`Unknown`] for the rest. The
/// second, with `, else Other`, holds any number.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $repr:ident, $what:literal {
            $($(#[$variant_meta:meta])* $variant:ident = $value:expr, $symbol:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($repr)]
        pub enum $name {
            $($(#[$variant_meta])* #[doc(alias = $symbol)] $variant = $value,)*
        }

        impl $name {
            /// Every variant, with the C symbol of its number.
            pub const SYMBOLS: &'static [($name, &'static str)] = &[$(($name::$variant, $symbol)),*];

            /// The variant with this number, if there is one.
            #[inline]
            pub const fn from_code(code: $repr) -> Option<$name> {
                match code {
                    $(code if code == $name::$variant as $repr => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// The variant's number.
            #[inline]
            pub const fn code(self) -> $repr {
                self as $repr
            }
        }

        impl TryFrom<$repr> for $name {
            type Error = $crate::layout::Unknown;

            #[inline]
            fn try_from(code: $repr) -> Result<Self, $crate::layout::Unknown> {
                Self::from_code(code)
                    .ok_or($crate::layout::Unknown { what: $what, value: code.into() })
            }
        }

        impl From<$name> for $repr {
            #[inline]
            fn from(value: $name) -> $repr {
                value.code()
            }
        }
    };

    (
        $(#[$meta:meta])*
        pub enum $name:ident: $repr:ident, else $other:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $value:literal, $symbol:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* #[doc(alias = $symbol)] $variant,)*
            /// A number that none of the others has.
            $other($repr),
        }

        impl $name {
            /// Every named variant, with the C symbol of its number.
            pub const SYMBOLS: &'static [($name, &'static str)] = &[$(($name::$variant, $symbol)),*];

            /// The variant with this number.
            #[inline]
            pub const fn from_code(code: $repr) -> $name {
                match code {
                    $($value => $name::$variant,)*
                    other => $name::$other(other),
                }
            }

            /// The variant's number.
            #[inline]
            pub const fn code(self) -> $repr {
                match self {
                    $($name::$variant => $value,)*
                    $name::$other(other) => other,
                }
            }
        }

        impl From<$repr> for $name {
            #[inline]
            fn from(code: $repr) -> $name {
                $name::from_code(code)
            }
        }

        impl From<$name> for $repr {
            #[inline]
            fn from(value: $name) -> $repr {
                value.code()
            }
        }
    };
}

/// Constants that carry the numbers of a C header, each under its C symbol, and `SYMBOLS` that
/// lists them for the golden tests.
macro_rules! numbers {
    ($type:ident; $($(#[$meta:meta])* $name:ident = $value:expr, $symbol:literal;)*) => {
        $($(#[$meta])* #[doc(alias = $symbol)] #[doc = concat!(" `", $symbol, "`.")] pub const $name: $type = $value;)*

        /// Every number of this module, with its C symbol.
        pub const SYMBOLS: &[($type, &str)] = &[$(($name, $symbol)),*];
    };
}
