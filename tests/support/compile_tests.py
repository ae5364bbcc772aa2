"""Compile the test modules once, as pytest compiles them: with the values of failed assertions.

Each worker of pytest-xdist imports every test module. In a fresh checkout all of them would compile all modules at the
same time, which takes four times as long. Run by `make pytest` in a checkout where it was not run.
"""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent


def main() -> int:
    """Collect the tests in as many processes as there are processors, which stores the compiled modules."""
    modules = sorted(TESTS.rglob("test_*.py"), key=lambda path: path.stat().st_size)
    count = os.cpu_count() or 1
    command = [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "-qqq"]
    shares = [[str(path) for path in modules[first::count]] for first in range(count)]
    processes = [subprocess.Popen([*command, *share], stdout=subprocess.DEVNULL) for share in shares if share]
    return max(process.wait() for process in processes)


if __name__ == "__main__":
    sys.exit(main())
