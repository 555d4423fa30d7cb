//! What is wrong with a header: the layer, the field, and the two numbers that disagree.
//! Touches nothing. Returned by every `new_checked`, `parse` and `emit`. No allocation, no
//! formatting until somebody asks for it, so a bad frame costs the data path only a return.

use core::fmt;

/// How `need` and `have` of an [`Error`] disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The buffer ends before the field does; both numbers are bytes.
    Truncated,
    /// The output buffer is too short; both numbers are bytes.
    NoRoom,
    /// The field must be `need` and is `have`.
    Differs,
    /// The field must be at least `need` and is `have`.
    Below,
    /// The field may be at most `need` and is `have`.
    Above,
}

/// A header that cannot be read, or a value that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Error {
    /// The protocol, as in `"ipv4"`.
    pub layer: &'static str,
    /// The field in it, as in `"total length"`.
    pub field: &'static str,
    /// What the two numbers mean.
    pub kind: Kind,
    /// What the layer asks for.
    pub need: usize,
    /// What was found.
    pub have: usize,
}

/// The result of everything in this crate that can fail.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// An error of any kind.
    pub const fn new(
        layer: &'static str,
        field: &'static str,
        kind: Kind,
        need: usize,
        have: usize,
    ) -> Error {
        Error { layer, field, kind, need, have }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { layer, field, kind, need, have } = *self;
        match kind {
            Kind::Truncated => write!(f, "{layer}: {field} needs {need} bytes, {have} are there"),
            Kind::NoRoom => write!(f, "{layer}: {field} takes {need} bytes, room for {have}"),
            Kind::Differs => write!(f, "{layer}: {field} is {have}, must be {need}"),
            Kind::Below => write!(f, "{layer}: {field} is {have}, must be at least {need}"),
            Kind::Above => write!(f, "{layer}: {field} is {have}, must be at most {need}"),
        }
    }
}

impl core::error::Error for Error {}

/// The checks the layers share; each names its layer and field.
macro_rules! check {
    ($name:ident, $kind:ident, $need:ident, $have:ident, $fails:expr) => {
        #[inline]
        pub(crate) fn $name(
            layer: &'static str,
            field: &'static str,
            $need: usize,
            $have: usize,
        ) -> Result<()> {
            if $fails { Err(Error::new(layer, field, Kind::$kind, $need, $have)) } else { Ok(()) }
        }
    };
}

check!(holds, Truncated, need, have, have < need);
check!(room, NoRoom, need, have, have < need);
check!(equals, Differs, need, have, have != need);
check!(at_least, Below, need, have, have < need);
check!(at_most, Above, need, have, have > need);
