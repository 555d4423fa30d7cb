"""Open vSwitch's classifier, as a peer of lookups that can be updated: its library from Debian's package of its sources, built once
and kept beside what cargo builds, and ovs_classifier.c, which puts sets and traces to it. Called by lookups.py and main.py.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import dpdk

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PACKAGE = "openvswitch-source"
LIBRARIES = ("lib/.libs/libopenvswitch.a", "lib/.libs/libopenvswitchavx512.a")
# Of both the library and the program, as rte_acl's program is built.
FLAGS = "-O2 -march=native"
NEEDED = ("apt-get", "dpkg", "tar", "make", "cc")


def run(*command: object, cwd: pathlib.Path) -> None:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise dpdk.Failed(f"{command[0]} in {cwd}: {(done.stderr or done.stdout).strip()[-300:]}")


def sources() -> pathlib.Path:
    """The sources with their library built: a minute the first time."""
    kept = TARGET / "peers"
    for found in sorted(kept.glob("openvswitch-*"), reverse=True):
        if all((found / library).exists() for library in LIBRARIES):
            return found
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing:
        raise dpdk.Failed(f"{', '.join(missing)} not installed")
    kept.mkdir(parents=True, exist_ok=True)
    print(f"building Open vSwitch's library from {PACKAGE}: about a minute, once", flush=True)
    with tempfile.TemporaryDirectory(dir=kept) as temporary:
        here = pathlib.Path(temporary)
        run("apt-get", "download", "-qq", PACKAGE, cwd=here)
        package = next(here.glob("*.deb"))
        run("dpkg", "-x", package, here / "package", cwd=here)
        run("tar", "-xf", here / "package/usr/src/openvswitch/openvswitch.tar.gz", cwd=here)
        tree = here / "openvswitch"
        run("./configure", "--disable-ssl", "--disable-shared", f"CFLAGS={FLAGS}", cwd=tree)
        # What the library's sources include is made by a target of which nothing else is built.
        (tree / "includes.mk").write_text("includes: $(BUILT_SOURCES)\n")
        jobs = f"-j{os.cpu_count() or 1}"
        run("make", jobs, "-f", "Makefile", "-f", "includes.mk", "includes", cwd=tree)
        run("make", jobs, "lib/libopenvswitch.la", cwd=tree)
        version = package.name.split("_")[1]
        return tree.rename(kept / f"openvswitch-{version}")


def version() -> str:
    return sources().name.removeprefix("openvswitch-")


def build(to: pathlib.Path) -> pathlib.Path:
    tree = sources()
    found = re.search(r"^LIBS = (.*)", (tree / "Makefile").read_text(), re.MULTILINE)
    libraries = [*(tree / library for library in LIBRARIES), *shlex.split(found[1] if found else ""), "-lpthread"]
    includes = [f"-I{tree / folder}" for folder in ("include", "lib", ".")]
    source = pathlib.Path(__file__).with_name("ovs_classifier.c")
    run("cc", *FLAGS.split(), *includes, source, "-o", to, *libraries, cwd=to.parent)
    return to
