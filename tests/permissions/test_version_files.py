"""Version files of a project choose the program that a shim of pyenv, rbenv, nodenv, jenv or goenv runs."""

import os

import pytest

from teamwright.permissions.verdict import Verdict

LINES = {
    ".java-version": "java --version",
    ".python-version": "python3 --version",
    ".ruby-version": "ruby --version",
    ".node-version": "node --version",
    ".go-version": "go version",
}


@pytest.mark.finding("3P3")
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize(
    "text", ["../../project/jdk\n", "/tmp/jdk\n", "3.11:../x\n", "..\n", "lts/*\n", "3.11\n../x\n"]
)
def test_a_version_file_that_names_a_path_asks(own_scratch, name, text):
    file = own_scratch.project / name
    file.write_text("3.11.2\n")
    # The version of go writes below the home directory, so it is never proven.
    assert own_scratch.run(LINES[name]).verdict is (Verdict.ASK if name == ".go-version" else Verdict.ALLOW)
    file.write_text(text)
    assert own_scratch.run(LINES[name]).verdict is Verdict.ASK
    assert own_scratch.run(f"cd src && {LINES[name]}").verdict is Verdict.ASK


@pytest.mark.finding("3P3")
@pytest.mark.parametrize("text", ["", "system\n", "# ours\n3.11.2 3.10\n", "openjdk64-17.0.1\n", "ruby-3.2.0-p1\r\n"])
def test_plain_versions_need_no_answer(own_scratch, text):
    for name, line in LINES.items():
        (own_scratch.project / name).write_text(text)
        assert own_scratch.run(line).verdict is (Verdict.ASK if line == "go version" else Verdict.ALLOW)


@pytest.mark.finding("3P3")
def test_a_version_file_that_cannot_be_read_asks(own_scratch):
    os.mkfifo(own_scratch.project / ".java-version")
    assert own_scratch.run("java --version").verdict is Verdict.ASK
