//! Structures of fixed layout, declared once and both read and written by the declaration.
//!
//! Room: `wire`. A [`Kind`] is how a value stands on the wire; `layout!` makes a kind of a model's
//! structure from its fields' kinds, in the wire's order. The encodings declare theirs; where a
//! version differs, it has its own declaration of the same model.

use super::{Reader, Writer};
use crate::model::ErrorCode;

/// How a value stands on the wire.
pub trait Kind {
    /// The value.
    type Value;

    /// Reads one.
    ///
    /// # Errors
    /// The reader's where it ends before; the kind's own for values that mean nothing.
    fn read(r: &mut Reader<'_>) -> Result<Self::Value, ErrorCode>;

    /// Writes one.
    fn write(value: &Self::Value, w: &mut Writer<'_>);

    /// Reads as many as there are until the reader's end.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    fn read_all(r: &mut Reader<'_>) -> Result<Vec<Self::Value>, ErrorCode> {
        let mut all = Vec::new();
        while !r.is_empty() {
            all.push(Self::read(r)?);
        }
        Ok(all)
    }
}

macro_rules! numbers {
    ($($t:ident)*) => {$(
        impl Kind for $t {
            type Value = $t;
            fn read(r: &mut Reader<'_>) -> Result<$t, ErrorCode> {
                r.$t()
            }
            fn write(value: &$t, w: &mut Writer<'_>) {
                w.$t(*value);
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64);

impl<const N: usize> Kind for [u8; N] {
    type Value = [u8; N];
    fn read(r: &mut Reader<'_>) -> Result<[u8; N], ErrorCode> {
        r.array()
    }
    fn write(value: &[u8; N], w: &mut Writer<'_>) {
        w.bytes(value);
    }
}

/// A text in a field of `N` bytes, ended by a zero.
pub struct Text<const N: usize>;

impl<const N: usize> Kind for Text<N> {
    type Value = String;
    fn read(r: &mut Reader<'_>) -> Result<String, ErrorCode> {
        r.text(N)
    }
    fn write(value: &String, w: &mut Writer<'_>) {
        w.text(value, N);
    }
}

/// Two numbers side by side, as in pairs of counters.
pub struct Pair<K>(std::marker::PhantomData<K>);

impl<K: Kind> Kind for Pair<K> {
    type Value = (K::Value, K::Value);
    fn read(r: &mut Reader<'_>) -> Result<Self::Value, ErrorCode> {
        Ok((K::read(r)?, K::read(r)?))
    }
    fn write(value: &Self::Value, w: &mut Writer<'_>) {
        K::write(&value.0, w);
        K::write(&value.1, w);
    }
}

/// So many in a row.
pub struct Row<K, const N: usize>(std::marker::PhantomData<K>);

impl<K: Kind, const N: usize> Kind for Row<K, N>
where
    K::Value: Copy + Default,
{
    type Value = [K::Value; N];
    fn read(r: &mut Reader<'_>) -> Result<Self::Value, ErrorCode> {
        let mut row = [K::Value::default(); N];
        for value in &mut row {
            *value = K::read(r)?;
        }
        Ok(row)
    }
    fn write(value: &Self::Value, w: &mut Writer<'_>) {
        for one in value {
            K::write(one, w);
        }
    }
}

/// Declares kinds that wrap a number: `Name: Model as number;`.
macro_rules! wrapped {
    ($($(#[$m:meta])* $name:ident: $model:path as $number:ident;)*) => {$(
        $(#[$m])*
        pub(crate) struct $name;
        impl $crate::wire::Kind for $name {
            type Value = $model;
            fn read(
                r: &mut $crate::wire::Reader<'_>,
            ) -> Result<$model, $crate::model::ErrorCode> {
                r.$number().map($model)
            }
            fn write(value: &$model, w: &mut $crate::wire::Writer<'_>) {
                w.$number(value.0);
            }
        }
    )*};
}
pub(crate) use wrapped;

/// Declares kinds that are numbers with names: `Name: Model as number else Error { 0 = Variant }`.
macro_rules! named {
    ($($(#[$m:meta])* $name:ident: $model:ident as $number:ident else $error:ident
        { $($n:literal = $variant:ident,)* })*) => {$(
        $(#[$m])*
        pub(crate) struct $name;
        impl $crate::wire::Kind for $name {
            type Value = $model;
            fn read(
                r: &mut $crate::wire::Reader<'_>,
            ) -> Result<$model, $crate::model::ErrorCode> {
                match r.$number()? {
                    $($n => Ok($model::$variant),)*
                    _ => Err($crate::model::ErrorCode::$error),
                }
            }
            fn write(value: &$model, w: &mut $crate::wire::Writer<'_>) {
                w.$number(match value {
                    $($model::$variant => $n,)*
                });
            }
        }
    )*};
}
pub(crate) use named;

/// Declares kinds of structures: `Name: Model { field: Kind; field: Kind, pad n; + field = value; }`,
/// fields in the wire's order, with `n` bytes of padding behind some; behind `+` are fields of the
/// model that the version has not.
macro_rules! layout {
    ($($(#[$m:meta])* $name:ident: $model:ident {
        $($field:ident: $kind:ty $(, pad $pad:literal)?;)*
        $(+ $absent:ident = $value:expr;)*
    })*) => {$(
        $(#[$m])*
        pub(crate) struct $name;
        impl $crate::wire::Kind for $name {
            type Value = $model;
            fn read(
                r: &mut $crate::wire::Reader<'_>,
            ) -> Result<$model, $crate::model::ErrorCode> {
                $(
                    let $field = <$kind as $crate::wire::Kind>::read(r)?;
                    $(r.skip($pad)?;)?
                )*
                Ok($model { $($field,)* $($absent: $value,)* })
            }
            fn write(value: &$model, w: &mut $crate::wire::Writer<'_>) {
                $(
                    <$kind as $crate::wire::Kind>::write(&value.$field, w);
                    $(w.zeros($pad);)?
                )*
            }
        }
    )*};
}
pub(crate) use layout;
