"""The virtual environment of a judge: made once, of exactly what requirements-NAME.txt names, hashes checked.

Called by the judges before they enter their lab, since pip needs the network and a lab has none. Touches
target/judges/venv-NAME-HASH alone; a changed requirements file gives another directory.
"""
import hashlib
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
STATE = os.environ.get("WEIR_JUDGES_DIR") or os.path.join(
    os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"), "judges")


class Venv:
    """A ready environment: `bin("osken-manager")`, `package("os_ken")`."""

    def __init__(self, path):
        self.path = path

    def bin(self, program):
        return os.path.join(self.path, "bin", program)

    def package(self, name):
        lib = os.path.join(self.path, "lib")
        for python in sorted(os.listdir(lib)):
            path = os.path.join(lib, python, "site-packages", name)
            if os.path.isdir(path):
                return path
        raise FileNotFoundError("no package %s in %s" % (name, self.path))

    def version(self, distribution):
        out = subprocess.run([self.bin("python"), "-c", "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))",
                              distribution], capture_output=True, text=True, check=True)
        return out.stdout.strip()


def ensure(name):
    """The environment of requirements-NAME.txt, made if it is not there."""
    requirements = os.path.join(HERE, "requirements-%s.txt" % name)
    with open(requirements, "rb") as f:
        digest = hashlib.sha256(f.read() + sys.version.encode()).hexdigest()[:12]
    path = os.path.join(STATE, "venv-%s-%s" % (name, digest))
    if os.path.exists(os.path.join(path, "complete")):
        return Venv(path)
    print("judges: installing %s's environment, once" % name, file=sys.stderr, flush=True)
    os.makedirs(STATE, exist_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", path], check=True)
        subprocess.run([os.path.join(path, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check",
                        "--require-hashes", "-r", requirements], check=True)
    except (subprocess.CalledProcessError, KeyboardInterrupt):
        shutil.rmtree(path, ignore_errors=True)
        raise
    with open(os.path.join(path, "complete"), "w"):
        pass
    return Venv(path)


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        print(ensure(wanted).path)
