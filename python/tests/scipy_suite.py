"""Runs SciPy's own tests of its filters against `faltung.ndimage`. Exit status 0 means:

* all of them pass,
* our functions compute at least 85 % of the calls themselves.

    python python/tests/scipy_suite.py [arguments of pytest]
"""

import os
import subprocess
import sys
from pathlib import Path

LEAST_NATIVE = 85  # percent


def main(arguments):
    folder = str(Path(__file__).resolve().parent)
    paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "FALTUNG_NATIVE": str(LEAST_NATIVE), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "pytest", "-p", "faltung_for_scipy", "-p", "no:cacheprovider", "-q"]
    command += ["--pyargs", "scipy.ndimage.tests.test_filters", *arguments]
    return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
