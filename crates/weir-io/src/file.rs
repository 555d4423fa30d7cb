//! What the system says of a file, with how to mend it.
//!
//! Room: an error → its text. Called by whatever opens a file that the user names, here and in the
//! binary.

use std::io::{Error, ErrorKind};

/// The system's reason, and what to do about it.
pub fn trouble(e: &Error) -> String {
    let mend = match e.kind() {
        ErrorKind::NotFound => "check the name and its directory",
        ErrorKind::PermissionDenied => "take another, or run as who may use it",
        ErrorKind::IsADirectory => "name a file in it",
        ErrorKind::NotADirectory => "a part of its path is a file: check the path",
        ErrorKind::AlreadyExists => "take another name",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room, or write it elsewhere",
        ErrorKind::ReadOnlyFilesystem => "write it elsewhere",
        _ => return e.to_string(),
    };
    format!("{e}: {mend}")
}
