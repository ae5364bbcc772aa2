"""The lock against a model of it: owners that die at any step, strangers' directories, clocks that are set."""

import os
import shutil
import time
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from teamwright.protocol.errors import LockLost, LockTimeout
from teamwright.storage import locks
from teamwright.storage.locks import FileLock
from tests.support.examples import examples
from tests.support.mortal_machine import MortalMachine

AGES = (-3, 0, 4, 9, 12, 4_000)
STEPS = (-3_600, -30, 0, 30, 3_600)


pytestmark = pytest.mark.usefixtures("mortal")


class Locks(MortalMachine):
    """`stands`: what bars the way: None, "dead" (one of ours was killed inside) or "strange" (another product's)."""

    def __init__(self):
        super().__init__()
        self.target = self.home.shared / "file"
        self.directory = self.home.shared / "file.lock"
        self.stands = None
        self.died = 0.0
        self.clock_is_set(0)

    def teardown(self):
        locks.time = time
        super().teardown()

    def now(self):
        return time.time() + self.ahead

    @rule(step=st.sampled_from(STEPS))
    def clock_is_set(self, step):
        self.ahead = step
        locks.time = SimpleNamespace(time=self.now, time_ns=lambda: int(self.now() * 1e9), monotonic=time.monotonic)

    @precondition(lambda self: self.stands is None)
    @rule(age=st.sampled_from(AGES), full=st.booleans())
    def a_stranger_takes_it(self, age, full):
        self.directory.mkdir()
        if full:
            (self.directory / "theirs").write_text("")
        then = self.apart(self.now() - age)
        os.utime(self.directory, (then, then))
        self.stands = "strange"

    @precondition(lambda self: self.stands == "strange")
    @rule()
    def the_stranger_leaves(self):
        shutil.rmtree(self.directory)
        self.stands = None

    @precondition(lambda self: self.stands == "strange")
    @rule()
    def the_stranger_touches_it(self):
        then = self.apart(self.now())
        os.utime(self.directory, (then, then))

    def apart(self, then):
        """Not at the moment of a death: what was made then is judged by how long it stands."""
        return self.died + 0.2 if abs(then - self.died) < 0.2 else then

    @precondition(lambda self: self.stands != "strange")
    @rule(at=st.integers(0, 8))
    def one_of_ours_dies_at_a_step(self, at):
        """Its clock is the true one; where its own start meets a dead one's directory it gets in first."""
        answer = self.mortal.life("hold", at=at, name="file")
        assert "refused" not in answer
        self.died = time.time()
        self.stands = "dead" if self.directory.exists() else None

    @rule(lost=st.sampled_from(["kept", "removed", "taken"]))
    def one_of_ours_comes(self, lost):
        """It gets in, and out again, exactly when nobody live is inside; what it cannot have it leaves as it is."""
        before = locks.directory_mark(str(self.directory))
        barred = self.stands == "strange" and self.now() - before.mtime_ns / 1e9 <= locks.STALE_S
        if barred:
            assert isinstance(self.runner.run(self.hold("kept")), LockTimeout)
            assert locks.directory_mark(str(self.directory)) == before
            return
        was, self.stands = self.stands, None
        recovered = self.runner.run(self.hold(lost))
        assert recovered == (was is not None)
        assert self.directory.exists() == (lost == "taken")
        if lost == "taken":
            self.stands = "strange"

    async def hold(self, lost):
        """What came of one hold: the error, or whether an owner had died. Inside, the directory may be lost."""
        try:
            async with FileLock(self.target, self.home.shared / "guards" / "file", wait_s=0.02).hold() as held:
                held.check()
                self.lose(lost, held)
                return held.recovered
        except LockTimeout as problem:
            assert str(self.directory) in problem.render() and "age" in dict(problem.looked_at)
            return problem

    def lose(self, lost, held):
        if lost == "kept":
            return
        self.directory.rmdir()
        if lost == "taken":
            self.directory.mkdir()
        with pytest.raises(LockLost):
            held.check()


Locks.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=25, deadline=None)
TestLocks = pytest.mark.promise("F29", "F03", "P5")(Locks.TestCase)
