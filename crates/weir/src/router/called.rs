//! What everything is called that routers have outside of this process, and what is left of it by a process that was killed.
//!
//! Room: names; namespaces, interfaces, groups and folders, to take them away. Called by [`super::node`].
//!
//! All is called after the router and after this data plane's control
//! socket: its namespace `weir-ID-NAME`, its groups likewise, its interfaces at this end `wID…`, its folder
//! `/run/weir-routers/ID/NAME`. So the next process at the same socket knows what one that was killed has
//! left, and takes it away.

use super::cgroup::Group;
use super::programs::{end, inside};
use super::wires::Wires;
use crate::namespace;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use weir_supervisor::section::digest;

/// Where routers keep their files. Not among the control sockets: FRR's daemons, which are another user,
/// must come through.
const FILES: &str = "/run/weir-routers";

/// What tells a data plane from others of the machine.
#[derive(Debug, Default)]
pub struct Called {
    id: String,
}

impl Called {
    /// After the data plane whose control socket this is.
    pub fn after(socket: &Path) -> Self {
        let whole = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
        let id = digest(whole.as_os_str().as_encoded_bytes());
        Self { id: format!("{:08x}", id >> 32) }
    }

    /// What all of a router's things are called.
    pub fn namespace(&self, name: &str) -> String {
        format!("weir-{}-{name}", self.id)
    }
    /// What interfaces at this end begin with. A name has 15 letters.
    fn interfaces(&self) -> String {
        format!("w{}", self.id.get(..6).unwrap_or_default())
    }
    /// What a router's interfaces begin with.
    pub fn interfaces_of(&self, vid: u16) -> String {
        format!("{}{vid:04x}p", self.interfaces())
    }
    /// The folder of all routers' folders.
    fn files(&self) -> PathBuf {
        Path::new(FILES).join(&self.id)
    }

    /// Takes away what is called after this data plane and is nobody's any more.
    pub fn sweep(&self) {
        let prefix = self.namespace("");
        let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let names = names.filter_map(|e| e.file_name().into_string().ok());
        for name in names.filter(|n| n.starts_with(&prefix)) {
            if let Ok(file) = File::open(format!("/run/netns/{name}")) {
                end(|| inside(&file));
            }
            namespace::delete(&name);
        }
        // Nobody is there to be told what the kernel does not give back.
        let _ = Wires::unplug(&self.interfaces());
        for name in Group::beginning(&prefix) {
            let group = Group::left(&name);
            end(|| group.processes());
            group.remove();
        }
        let _ = fs::remove_dir_all(self.files());
        self.forget_folders();
    }

    /// A router's folder, and those that it is in: theirs to come through, whatever the umask.
    ///
    /// # Errors
    /// The system refuses.
    pub fn make_folder(&self, router: &str) -> Result<PathBuf> {
        let folder = self.files().join(router);
        for path in [Path::new(FILES), &self.files(), &folder] {
            fs::create_dir_all(path)
                .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o711)))
                .with_context(|| format!("making {}", path.display()))?;
        }
        Ok(folder)
    }

    /// Takes a router's folder away, and those that no router is left in.
    pub fn remove_folder(&self, router: &str) {
        let _ = fs::remove_dir_all(self.files().join(router));
        self.forget_folders();
    }

    fn forget_folders(&self) {
        for path in [self.files(), PathBuf::from(FILES)] {
            // One that somebody else's routers are in stays.
            let _ = fs::remove_dir(path);
        }
    }
}
