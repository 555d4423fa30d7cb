//! Puts everything that a host sends by an interface into a VLAN, and takes it out on reception,
//! by two programs at the interface's traffic-control hooks: the kernel keeps the tag beside the
//! frame, as it does for a VLAN device, and works on kernels that have none.

use super::run;
use std::path::PathBuf;

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;

/// Where the programs are pinned while they are attached; unmounted when dropped.
pub struct Tagger {
    dir: PathBuf,
}

fn insn(code: u8, dst: u8, imm: i32) -> [u8; 8] {
    let i = imm.to_ne_bytes();
    [code, dst, 0, 0, i[0], i[1], i[2], i[3]]
}

fn bpf(command: libc::c_long, attr: &[u64]) -> i32 {
    // SAFETY: `attr` is alive, as are the buffers that its callers point to from it.
    let r = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_ptr(), size_of_val(attr)) };
    assert!(r >= 0, "bpf({command}): {}", std::io::Error::last_os_error());
    r as i32
}

/// Loads a program that calls one helper on the packet and lets it pass; pins it.
fn pin(path: &str, arguments: &[(u8, i32)], helper: i32) {
    let mut code: Vec<[u8; 8]> =
        arguments.iter().map(|&(register, v)| insn(0xb7, register, v)).collect();
    code.extend([insn(0x85, 0, helper), insn(0xb7, 0, 0), insn(0x95, 0, 0)]);
    let licence = c"GPL";
    let mut attr = [0u64; 16];
    attr[0] = u64::from(BPF_PROG_TYPE_SCHED_CLS) | (code.len() as u64) << 32;
    attr[1] = code.as_ptr() as u64;
    attr[2] = licence.as_ptr() as u64;
    let fd = bpf(BPF_PROG_LOAD, &attr);
    let path = std::ffi::CString::new(path).unwrap();
    bpf(BPF_OBJ_PIN, &[path.as_ptr() as u64, fd as u64]);
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(fd) };
}

impl Tagger {
    pub fn new(namespace: &str, interface: &str, vid: u16) -> Self {
        let dir = std::env::temp_dir().join(format!("bpf-{namespace}"));
        std::fs::create_dir(&dir).unwrap();
        let d = dir.display();
        run(&format!("mount -t bpf bpf {d}"));
        let this = Self { dir: dir.clone() };
        // bpf_skb_vlan_push(packet, protocol in network order, tag) and bpf_skb_vlan_pop(packet).
        let tpid = i32::from(0x8100u16.to_be());
        pin(&format!("{d}/push"), &[(2, tpid), (3, vid.into())], 18);
        pin(&format!("{d}/pop"), &[], 19);
        run(&format!("tc -n {namespace} qdisc add dev {interface} clsact"));
        for (way, program) in [("egress", "push"), ("ingress", "pop")] {
            run(&format!(
                "tc -n {namespace} filter add dev {interface} {way} bpf da object-pinned {d}/{program}"
            ));
        }
        this
    }
}

impl Drop for Tagger {
    fn drop(&mut self) {
        let d = self.dir.display();
        let _ = std::process::Command::new("umount").arg(&self.dir).output();
        if let Err(e) = std::fs::remove_dir(&self.dir) {
            eprintln!("{d}: {e}");
        }
    }
}
