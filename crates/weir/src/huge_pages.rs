//! Huge pages for large tables: lookups that go everywhere walk the processor's page tables less.
//!
//! Room: the program's start. glibc takes its allocator's tunables from the environment when a program starts and at no other
//! time, so the program starts itself once more: the same process, with the same arguments. Called by `main` for what runs a
//! data plane. Why: decisions 55 and 92.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Where glibc looks. Whoever has set it has decided.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// glibc asks for what it adds to its heap, and for each thread's when it begins, and for blocks that it maps by themselves if these are two
/// mebibytes or more. So what it adds is 64 MiB at least, which is all that a thread's has; memory that nobody touches is only
/// reserved. Blocks from a mebibyte on are mapped by themselves, as `weir_io::give_large_blocks_back` has it for every command
/// (decision 17), and 64 MiB may lie free at an end before they are given back. `bench/peers/lookups.py` reads this, too.
const WANTED: &str = concat!(
    "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864:",
    "glibc.malloc.mmap_threshold=1048576:glibc.malloc.trim_threshold=67108864"
);
/// The program has started itself: whatever became of the tunables, it does not do so again.
const ONCE: &str = "WEIR_HUGE_PAGES_ASKED";
/// What the kernel does of its own accord.
const KERNEL: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Asks for them where the kernel gives huge pages to who asks. Returns where nothing is to be asked for, or it can't be: an
/// optimisation, without which everything works.
pub fn ask(arguments: &[OsString]) {
    let on_request = std::fs::read_to_string(KERNEL).is_ok_and(|s| s.contains("[madvise]"));
    let decided = [TUNABLES, ONCE].iter().any(|v| std::env::var_os(v).is_some());
    if !cfg!(target_env = "gnu") || !on_request || decided {
        return;
    }
    let Some((name, rest)) = arguments.split_first() else { return };
    // By its path: who looks for a process by name shall find it.
    let Ok(program) = std::env::current_exe() else { return };
    let mut again = Command::new(program);
    again.arg0(name).args(rest).env(TUNABLES, WANTED).env(ONCE, "1");
    // It comes back only if the system refused.
    let _refused = again.exec();
}
