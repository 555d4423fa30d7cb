"""Open vSwitch's classifier, as a peer of lookups that can be updated: its library from Debian's package of its sources, built once
and kept beside what cargo builds, and ovs_classifier.c, which puts sets and traces to it. Called by lookups.py and main.py.
"""

import hashlib
import os
import pathlib
import re
import shlex
import shutil
import tempfile

import dpdk

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PACKAGE = "openvswitch-source"
LIBRARY = "lib/.libs/libopenvswitch.a"
# Where the compiler and the linker have it.
AVX512 = "lib/.libs/libopenvswitchavx512.a"
# Of both the library and the program, as rte_acl's program is built.
FLAGS = "-O2 -march=native"
OPTIONS = ("--disable-ssl", "--disable-shared", f"CFLAGS={FLAGS}")
NEEDED = ("apt-get", "dpkg", "tar", "make", "cc")


def kind() -> str:
    """Of processors, and of how it is built: what is built for one may not run on another."""
    flags = re.search(r"^(flags|Features)\s*:.*", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return hashlib.sha256(f"{flags and flags[0]} {OPTIONS}".encode()).hexdigest()[:12]


def built_before() -> pathlib.Path | None:
    found = (TARGET / "peers").glob(f"openvswitch-*-{kind()}")
    return next((tree for tree in found if (tree / LIBRARY).exists()), None)


def sources() -> pathlib.Path:
    """The sources with their library built: a minute the first time."""
    if found := built_before():
        return found
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing:
        raise dpdk.Failed(f"{', '.join(missing)} not installed")
    kept = TARGET / "peers"
    kept.mkdir(parents=True, exist_ok=True)
    print(f"building Open vSwitch's library from {PACKAGE}: about a minute, once", flush=True)
    with tempfile.TemporaryDirectory(dir=kept) as temporary:
        here = pathlib.Path(temporary)
        package = dpdk.unpacked(PACKAGE, here)
        dpdk.run("tar", "-xf", here / "usr/src/openvswitch/openvswitch.tar.gz", cwd=here)
        tree = here / "openvswitch"
        dpdk.run("./configure", *OPTIONS, cwd=tree)
        # What the library's sources include is made by a target of which nothing else is built.
        (tree / "includes.mk").write_text("includes: $(BUILT_SOURCES)\n")
        jobs = f"-j{os.cpu_count() or 1}"
        dpdk.run("make", jobs, "-f", "Makefile", "-f", "includes.mk", "includes", cwd=tree)
        dpdk.run("make", jobs, "lib/libopenvswitch.la", cwd=tree)
        to = kept / f"openvswitch-{package.name.split('_')[1]}-{kind()}"
        # Somebody else may have been sooner; what is not whole is nobody's.
        if not (to / LIBRARY).exists():
            shutil.rmtree(to, ignore_errors=True)
            tree.rename(to)
        return to


def version() -> str:
    return sources().name.removeprefix("openvswitch-").removesuffix(f"-{kind()}")


def build(to: pathlib.Path) -> pathlib.Path:
    tree = sources()
    found = re.search(r"^LIBS = (.*)", (tree / "Makefile").read_text(), re.MULTILINE)
    own = [tree / library for library in (LIBRARY, AVX512) if (tree / library).exists()]
    libraries = [*own, *shlex.split(found[1] if found else ""), "-lpthread"]
    includes = [f"-I{tree / folder}" for folder in ("include", "lib", ".")]
    source = pathlib.Path(__file__).with_name("ovs_classifier.c")
    dpdk.run("cc", *FLAGS.split(), *includes, source, "-o", to, *libraries, cwd=to.parent)
    return to
