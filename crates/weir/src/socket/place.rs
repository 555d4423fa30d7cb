//! Where the control socket is.

use anyhow::{Context, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The socket that is meant when none is named: in `$XDG_RUNTIME_DIR/weir`, else in `/run/weir`.
pub fn default_path() -> PathBuf {
    let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty());
    base.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("weir").join("control.sock")
}

/// Makes the folder of the default socket, for its owner alone.
pub fn make_default_folder(socket: &Path) -> Result<()> {
    let Some(folder) = socket.parent() else { return Ok(()) };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(|| {
        format!(
            "{}: can't be made for the control socket: name another by --socket",
            folder.display()
        )
    })
}
