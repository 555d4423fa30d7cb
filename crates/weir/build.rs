//! Notes the commit that is being built, for the results that `weir` writes.

use std::process::Command;

fn main() {
    let out = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let commit = out
        .ok()
        .filter(|o| o.status.success())
        .and_then(|o| String::from_utf8(o.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |s| s.trim().to_owned());
    println!("cargo:rustc-env=WEIR_COMMIT={commit}");
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/index");
}
