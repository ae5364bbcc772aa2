"""One number for several processes: each value once, also after a kill."""

import subprocess
import sys

import pytest

from teamwright.agent.toolbox import Counter
from tests.support.waits import WAIT_S

CHILD = """
import sys
from pathlib import Path
from teamwright.agent.toolbox import Counter
counter = Counter(Path(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    print(counter.next())
"""


@pytest.mark.promise("K11")
def test_processes_that_count_together_never_get_the_same_number(tmp_path):
    path = tmp_path / "session" / "calls"
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, str(path), "500"], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    told = [int(line) for child in children for line in child.communicate(timeout=WAIT_S)[0].split()]
    assert sorted(told) == list(range(1, 2001))
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_counter_goes_on_where_it_was_and_never_below_what_was_given_before(tmp_path):
    first = Counter(tmp_path / "calls", at_least=7)
    assert [first.next(), first.next()] == [8, 9]
    first.close()
    again = Counter(tmp_path / "calls", at_least=3)
    assert again.next() == 10
    again.close()
    again.close()
