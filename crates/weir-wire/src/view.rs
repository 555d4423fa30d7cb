//! How every layer reads and writes fields: total functions over byte slices, and the macros that
//! make views and open enums from a table of them. Private to the crate.
//!
//! Reads outside the buffer give zero and writes outside it do nothing. So no accessor can panic,
//! whatever the wire, a setter or an unchecked view has done to a length field. `new_checked` is
//! what tells a caller that the zeros are not needed.
//!
//! What each field goes through is inlined always: where it lies is known only to the accessor, and
//! a call that does not know it costs more than the field.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use crate::error::{Result, room};

/// Where a field lies, in bytes from the start of its header.
pub(crate) type Field = Range<usize>;

/// A value with a fixed big-endian form.
pub(crate) trait Value: Sized {
    /// What a field outside the buffer reads as.
    const ZERO: Self;
    fn read(bytes: &[u8]) -> Option<Self>;
    fn write(self, out: &mut [u8]);
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Value for $ty {
            const ZERO: $ty = 0;
            #[inline(always)]
            fn read(bytes: &[u8]) -> Option<$ty> {
                Some(<$ty>::from_be_bytes(bytes.try_into().ok()?))
            }
            #[inline(always)]
            fn write(self, out: &mut [u8]) {
                store(out, &self.to_be_bytes());
            }
        }
    )*};
}
integers!(u8, u16, u32, u64);

impl Value for Ipv4Addr {
    const ZERO: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
    #[inline]
    fn read(bytes: &[u8]) -> Option<Ipv4Addr> {
        Some(<[u8; 4]>::try_from(bytes).ok()?.into())
    }
    #[inline]
    fn write(self, out: &mut [u8]) {
        store(out, &self.octets());
    }
}

impl Value for Ipv6Addr {
    const ZERO: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
    #[inline]
    fn read(bytes: &[u8]) -> Option<Ipv6Addr> {
        Some(<[u8; 16]>::try_from(bytes).ok()?.into())
    }
    #[inline]
    fn write(self, out: &mut [u8]) {
        store(out, &self.octets());
    }
}

#[inline(always)]
pub(crate) fn store(out: &mut [u8], bytes: &[u8]) {
    if out.len() == bytes.len() {
        out.copy_from_slice(bytes);
    }
}

#[inline(always)]
pub(crate) fn get<V: Value>(bytes: &[u8], at: Field) -> V {
    bytes.get(at).and_then(V::read).unwrap_or(V::ZERO)
}

#[inline(always)]
pub(crate) fn put<V: Value>(bytes: &mut [u8], at: Field, value: V) {
    if let Some(out) = bytes.get_mut(at) {
        value.write(out);
    }
}

/// The bytes of a range, or none if the buffer does not hold all of them.
#[inline]
pub(crate) fn part(bytes: &[u8], at: Field) -> &[u8] {
    bytes.get(at).unwrap_or(&[])
}

#[inline]
pub(crate) fn part_mut(bytes: &mut [u8], at: Field) -> &mut [u8] {
    bytes.get_mut(at).unwrap_or(&mut [])
}

/// Everything from `at` on; nothing if the buffer ends before.
#[inline]
pub(crate) fn rest(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or(&[])
}

/// Writes one value after another; says which layer ran out of room.
pub(crate) struct Writer<'a> {
    layer: &'static str,
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(layer: &'static str, out: &'a mut [u8]) -> Writer<'a> {
        Writer { layer, out, at: 0 }
    }

    pub(crate) fn bytes(&mut self, field: &'static str, bytes: &[u8]) -> Result<()> {
        let end = self.at.saturating_add(bytes.len());
        room(self.layer, field, end, self.out.len())?;
        store(part_mut(self.out, self.at..end), bytes);
        self.at = end;
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.at
    }
}

/// Declares a view `$name<T>` of a header: construction, and a getter and a setter for each whole
/// field of the table. The module adds `fn check(&self) -> Result<()>` and the fields that share
/// a byte with others.
macro_rules! view {
    (
        $(#[$meta:meta])*
        $name:ident
        $( $(#[$doc:meta])* $get:ident, $set:ident: $ty:ty = $at:expr; )*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<T: AsRef<[u8]>> {
            buffer: T,
        }

        impl<T: AsRef<[u8]>> $name<T> {
            /// Wraps a buffer without looking at it: what it does not hold reads as zero.
            #[inline]
            pub const fn new_unchecked(buffer: T) -> Self {
                Self { buffer }
            }

            /// Wraps a buffer after [`Self::check`].
            ///
            /// # Errors
            /// Those of [`Self::check`].
            #[inline]
            pub fn new_checked(buffer: T) -> crate::Result<Self> {
                let view = Self { buffer };
                view.check()?;
                Ok(view)
            }

            /// Gives the buffer back.
            pub fn into_inner(self) -> T {
                self.buffer
            }

            /// The whole buffer, header and what follows it.
            #[inline]
            pub fn as_bytes(&self) -> &[u8] {
                self.buffer.as_ref()
            }

            $(
                $(#[$doc])*
                #[inline]
                pub fn $get(&self) -> $ty {
                    crate::view::get(self.buffer.as_ref(), $at)
                }
            )*
        }

        #[allow(dead_code)]
        impl<T: AsRef<[u8]> + AsMut<[u8]>> $name<T> {
            #[inline]
            fn bytes_mut(&mut self) -> &mut [u8] {
                self.buffer.as_mut()
            }

            $(
                #[doc = concat!("Writes what [`Self::", stringify!($get), "`] reads.")]
                #[inline]
                pub fn $set(&mut self, value: $ty) {
                    crate::view::put(self.buffer.as_mut(), $at, value);
                }
            )*
        }

        #[allow(dead_code)]
        impl<'a, T: AsRef<[u8]> + ?Sized> $name<&'a T> {
            /// The buffer, for as long as the buffer lives and not only the view.
            #[inline]
            pub(crate) fn long_bytes(&self) -> &'a [u8] {
                let buffer: &'a T = self.buffer;
                buffer.as_ref()
            }
        }
    };
}
pub(crate) use view;

/// Declares an enum over the values of an integer field that keeps the ones it has no name for.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        $name:ident: $int:ty { $( $(#[$doc:meta])* $variant:ident = $value:expr, )* }
    ) => {
        $(#[$meta])*
        ///
        /// Made by `From`, so that `Unknown` never holds a value that has a name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$doc])* $variant, )*
            /// A value without a name here.
            Unknown($int),
        }

        impl From<$int> for $name {
            #[inline]
            fn from(value: $int) -> $name {
                match value {
                    $( $value => $name::$variant, )*
                    other => $name::Unknown(other),
                }
            }
        }

        impl From<$name> for $int {
            #[inline(always)]
            fn from(value: $name) -> $int {
                match value {
                    $( $name::$variant => $value, )*
                    $name::Unknown(other) => other,
                }
            }
        }

        impl crate::view::Value for $name {
            const ZERO: $name = $name::Unknown(0);
            #[inline]
            fn read(bytes: &[u8]) -> Option<$name> {
                <$int as crate::view::Value>::read(bytes).map($name::from)
            }
            #[inline]
            fn write(self, out: &mut [u8]) {
                crate::view::Value::write(<$int>::from(self), out);
            }
        }
    };
}
pub(crate) use open_enum;
