"""The sample repository is unpacked by a git of its own: a signal at any moment leaves no such process."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from teamwright.saved.run_repository import clone_bundle


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_git_is_being_started_ends_that_git(number, tmp_path, monkeypatch):
    shim, started = tmp_path / "bin" / "git", []
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexec sleep 20\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    start = subprocess.Popen._execute_child

    def start_and_signal(self, *args):
        start(self, *args)
        started.append(self.pid)
        signal.raise_signal(number)

    def unwind(got, _frame):
        raise SystemExit(128 + got)

    monkeypatch.setattr(subprocess.Popen, "_execute_child", start_and_signal)
    before = signal.signal(number, unwind)
    try:
        with pytest.raises(SystemExit) as ended:
            clone_bundle(tmp_path / "bundle", tmp_path / "into")
        assert ended.value.code == 128 + number
        assert signal.getsignal(number) is unwind
    finally:
        signal.signal(number, before)
    assert started and not Path(f"/proc/{started[0]}").exists()
