"""What the state machines of records on disk share: a state root of their own, and processes that are killed in it."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis.stateful import RuleBasedStateMachine

from teamwright.storage import locks
from teamwright.storage.paths import Home
from tests.storage.mortal import Mortal


class MortalMachine(RuleBasedStateMachine):
    """A machine with a home of its own. `mortal` does an operation there in a process that may be killed in it.

    Its module uses the fixture `mortal`.
    """

    mortal: Mortal

    def __init__(self):
        super().__init__()
        in_memory = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(prefix="machine-", dir=in_memory if in_memory.is_dir() else None))
        self.home = Home.at(self.root)
        self.runner = asyncio.Runner()
        self.mortal.root = self.home.shared

    def teardown(self):
        self.runner.close()
        shutil.rmtree(self.root)


@contextmanager
def mortal_processes() -> Iterator[None]:
    """Start the processes of the machines. What a killed one leaves without a record is not waited for."""
    MortalMachine.mortal = Mortal(None)
    before = locks._INTENT_STOOD_S
    locks._INTENT_STOOD_S = 0.0
    try:
        yield
    finally:
        locks._INTENT_STOOD_S = before
        MortalMachine.mortal.close()
