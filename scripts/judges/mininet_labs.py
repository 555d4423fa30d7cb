"""Mininet with weir's switches (labs/mininet_weir.py): its own pings, link changes and tools are the judge, beside os-ken's
learning switch for a controller. `--target` has no say here.

    python3 scripts/judges/mininet_labs.py
"""
import os
import subprocess
import sys

from checks import Judge
from lab import listening
from switches import find_weir

HERE = os.path.dirname(os.path.abspath(__file__))
# Mininet is a package of the system, and its Python is the system's.
PYTHON = "/usr/bin/python3"
CONTROLLER = 6653


def main():
    if subprocess.run([PYTHON, "-c", "import mininet"], capture_output=True, check=False).returncode:
        print("needs the package mininet")
        return 77
    judge = Judge("mininet", __doc__, venv="osken-apps")
    weir = find_weir()
    with judge.lab() as lab:
        app = lab.spawn("osken", [
            judge.venv.bin("python"), "-u", os.path.join(HERE, "osken_apps_manager.py"), "--ofp-tcp-listen-port", CONTROLLER,
            "os_ken.app.simple_switch_13"])
        for part in (["bridges"], ["controller", str(CONTROLLER)]):
            if part[0] == "controller":
                lab.wait("os-ken", lambda: listening(lab, None, CONTROLLER), needs=[app], patience_s=60)
            scene = [PYTHON, os.path.join(HERE, "mininet_scene.py"), *part]
            status, said, wrong = lab.run(*scene, check=False, timeout=300, env={"WEIR": weir})
            for line in said.splitlines():
                word, _, rest = line.partition(" ")
                if word in ("ok", "FAIL"):
                    what, _, detail = rest.partition("\t")
                    judge.check("%s: %s" % (part[0], what), word == "ok", detail)
            judge.check("%s: to its end" % part[0], status == 0, wrong[-500:] if status else "")
    return judge.end()


if __name__ == "__main__":
    sys.exit(main())
