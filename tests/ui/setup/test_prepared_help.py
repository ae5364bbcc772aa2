"""`--help` and `--version` print prepared texts, which are what click would print; otherwise click prints them."""

import io
import os
import subprocess
import sys

import pytest

from teamwright import __version__
from teamwright.ui.cli.generate_help_files import render_help
from teamwright.ui.prepared_help import HELP_FILE, print_prepared
from tests.support.waits import WAIT_S


def program(*args: str, **env: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "teamwright", *args]
    return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=WAIT_S)


@pytest.mark.finding("B3")
def test_the_prepared_help_is_that_of_the_commands():
    with open(HELP_FILE, encoding="utf-8") as file:
        assert file.read() == render_help(), "run `make generated`"


@pytest.mark.parametrize("columns", ["80", "200"])
def test_the_help_of_a_wide_terminal_is_the_prepared_text(columns):
    assert program("--help", COLUMNS=columns).stdout == render_help()


def test_in_a_narrow_terminal_the_help_is_narrower():
    done = program("--help", COLUMNS="60")
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 60


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["--version"], ["-V"]])
def test_a_prepared_text_goes_to_stdout(monkeypatch, args):
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert print_prepared(args)
    wanted = f"teamwright {__version__}\n" if args[0] in {"--version", "-V"} else render_help()
    assert out.buffer.getvalue().decode() == wanted


@pytest.mark.parametrize("args", [[], ["status", "--help"], ["--help", "x"], ["-p", "--version"], ["help"]])
def test_other_arguments_have_no_prepared_text(args, capsys):
    assert not print_prepared(args)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_goes_the_usual_way(monkeypatch, stream):
    monkeypatch.setattr(sys, stream, None)
    assert not print_prepared(["--version"])


def test_a_full_disk_is_reported_as_for_every_command():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "teamwright", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert done.returncode != 0 and "disk" in done.stderr and "Traceback" not in done.stderr
