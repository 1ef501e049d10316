//! The one way to declare a struct that other processes see.
//!
//! `shared_struct!` writes the struct, asserts its size and the offset of every field at
//! compile time, and keeps a table of the fields from which `docs/layout.md` is drawn. A
//! declaration whose offsets have a hole or an overlap does not compile.

/// One field of a shared struct, as the diagrams show it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// Where it starts, in bytes.
    pub offset: usize,
    /// How long it is, in bytes.
    pub bytes: usize,
}

/// A shared struct, as the diagrams show it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The struct's name.
    pub name: &'static str,
    /// What it is for: the declaration's own documentation.
    pub purpose: &'static str,
    /// Its size in bytes.
    pub bytes: usize,
    /// Its fields, in order.
    pub fields: &'static [Field],
}

macro_rules! shared_struct {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident: $size:literal {
            $( $(#[doc = $field_doc:literal])+ $offset:literal => pub $field:ident: $type:ty, )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
            zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $( $(#[doc = $field_doc])+ pub $field: $type, )+
        }

        const _: () = {
            assert!(size_of::<$name>() == $size, "the struct's size differs from its declaration");
            $( assert!(
                core::mem::offset_of!($name, $field) == $offset,
                "a field's offset differs from its declaration"
            ); )+
        };

        impl $name {
            /// The size in bytes, as declared.
            pub const BYTES: usize = $size;
            /// The shape that `docs/layout.md` draws.
            pub const SHAPE: $crate::diagram::Shape = $crate::diagram::Shape {
                name: stringify!($name),
                purpose: concat!($($doc, "\n"),+),
                bytes: $size,
                fields: &[ $( $crate::diagram::Field {
                    name: stringify!($field),
                    offset: $offset,
                    bytes: size_of::<$type>(),
                } ),+ ],
            };
        }
    };
}
pub(crate) use shared_struct;
