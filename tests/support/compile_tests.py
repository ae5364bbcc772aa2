"""Compile the test modules once, as pytest compiles them: so that a failed assertion shows its values.

Each worker of pytest-xdist imports every test module. In a fresh checkout all of them would compile all modules at the
same time, which takes four times as long. Run by `make pytest` in a checkout where it was not run.
"""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
MOST_PROCESSES = 4
"""Each process needs some hundred megabytes of memory."""


def main() -> None:
    """Collect the tests in several processes, which stores the compiled modules. Errors are left to the tests' run."""
    modules = sorted(TESTS.rglob("test_*.py"), key=lambda path: path.stat().st_size)
    count = min(os.cpu_count() or 1, MOST_PROCESSES)
    command = [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "-qqq"]
    shares = [[str(path) for path in modules[first::count]] for first in range(count)]
    for process in [subprocess.Popen([*command, *share], stdout=subprocess.DEVNULL) for share in shares]:
        process.wait()


if __name__ == "__main__":
    main()
