"""Encodings in which a character contains a backslash: a line in UTF-8 has other quotes there than it seems to have."""

import os
import subprocess
from pathlib import Path

import pytest

from teamwright.permissions.verdict import Mode, Verdict
from teamwright.shell_lines.parse import parse_cached
from tests.support.programs import require
from tests.support.waits import WAIT_S

LINE = 'echo "中\\"; touch mark; #"'
"""In UTF-8 one text. In GBK the last byte of the character takes the backslash, so that the text ends before `;`."""

SETTING = [
    f"LC_ALL=zh_CN.GBK\n{LINE}",
    f"LANG=zh_CN.GBK\n{LINE}",
    f"export LC_CTYPE=zh_CN.GBK\n{LINE}",
    f"x=zh_CN.GBK; LC_ALL=$x\n{LINE}",
    f"for LC_ALL in zh_CN.GBK; do :; done\n{LINE}",
    f"LC_ALL=zh_CN.GBK; eval '{LINE}'",
]


@pytest.fixture(autouse=True)
def plain_encoding(monkeypatch):
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    parse_cached.cache_clear()
    yield
    parse_cached.cache_clear()


@pytest.fixture(scope="module")
def locales(tmp_path_factory) -> Path:
    """A directory with the locale zh_CN.GBK."""
    place = tmp_path_factory.mktemp("locales")
    words = [require("localedef"), "-c", "--no-archive", "-f", "GBK", "-i", "zh_CN", str(place / "zh_CN.GBK")]
    if subprocess.run(words, capture_output=True, timeout=WAIT_S, check=False).returncode > 1:
        pytest.skip("the sources of locales are not installed")
    return place


@pytest.mark.finding("P1")
@pytest.mark.parametrize("line", SETTING)
def test_a_line_that_sets_another_encoding_asks(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK
    assert scratch.run(line, Mode.DONT_ASK).verdict is Verdict.DENY
    assert scratch.run(line, Mode.BYPASS, deny=["Bash(touch:*)"]).verdict is Verdict.DENY
    assert scratch.run(line, Mode.BYPASS).verdict is Verdict.ALLOW


@pytest.mark.finding("P1")
@pytest.mark.parametrize("line", [LINE, f"LC_ALL=C.UTF-8\n{LINE}", f"LANG=zh_CN.UTF-8\n{LINE}"])
def test_the_same_line_in_utf_8_is_a_text(scratch, line):
    assert scratch.run(line).verdict is Verdict.ALLOW


@pytest.mark.finding("P1")
@pytest.mark.parametrize("name", ["zh_CN.GBK", "zh_TW", "ja_JP.SJIS"])
def test_an_encoding_of_the_environment_makes_such_a_line_unreadable(scratch, monkeypatch, name):
    monkeypatch.setenv("LC_ALL", name)
    assert scratch.run(LINE).verdict is Verdict.ASK
    assert scratch.run(LINE, Mode.BYPASS, deny=["Bash(touch:*)"]).verdict is Verdict.DENY
    assert scratch.run("echo '中'; ls").verdict is Verdict.ALLOW


@pytest.mark.finding("P1")
@pytest.mark.parametrize("line", SETTING)
@pytest.mark.slow_after(2)
def test_bash_runs_the_hidden_command_in_this_encoding(tmp_path, locales, line):
    env = {"PATH": os.environ["PATH"], "LOCPATH": str(locales), "LC_ALL": ""}
    subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, timeout=WAIT_S, check=False, capture_output=True)
    assert (tmp_path / "mark").exists()
