"""git itself as the judge of our reading: in a configuration without entries git finds harmless keys only."""

import os
import subprocess

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from teamwright.git.unsafe_config import SeenFiles, config_entries
from tests.support.waits import WAIT_S

EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", "200"))
RUNNING = ("core.fsmonitor", "diff.external", "diff.x.textconv", "filter.x.clean", "core.hookspath", "alias.x")
PIECES = [
    *("[core]", "[CORE]", "[core", "]", '[core "x"]', "[core.x]", "[diff]", '[diff "x"]', "[filter.x]", "[alias]"),
    *('[filter "x"]', '[user "', '"]', "[user]", "[remote ", '"a\\"b"', "[ core ]", "[core]#", "[core];", '["'),
    *("fsmonitor", "FSMonitor", "external", "textconv", "clean", "hookspath", "autocrlf", "name", "x", "worktree"),
    *(" = ", "=", " ", "\t", "\n", "\n\t", "\n\n", "\r\n", "\r", "\\\n", "\\", "\\n", "\\t", '\\"', '"', "'", "#", ";"),
    *(
        "off",
        "false",
        "./evil",
        "true",
        "off#",
        "x",
        "\x0b",
        "\x0c",
        "\x85",
        "\u2028",
        "\u00a0",
        "\ufeff",
        "\x01",
        "\x1f",
    ),
    *(
        "\x7f",
        "\x00",
        "é",
        "\n[core]\n",
        "\nfsmonitor = ./evil\n",
        "\n\tfsmonitor=./evil",
        '\n[filter "x"]\nclean=./evil\n',
    ),
]


def keys_that_git_reads(path) -> list[str]:
    """Every `key value` as git lists them, the key in the spelling of git; none where git refuses the file."""
    listed = subprocess.run(
        ["git", "config", "--file", str(path), "--list", "-z"], capture_output=True, timeout=WAIT_S, check=False
    )
    return [entry.decode(errors="replace") for entry in listed.stdout.split(b"\0") if entry]


@pytest.mark.promise("P7")
@pytest.mark.finding("P5")
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@example('[core]\n\tfsmonitor = "off#;./evil"\n')
@example('[user]\n\tname = "x\\\n[core]\\\n"\n[core]\n\tfsmonitor = ./evil\n')
@example("[core]\n\tautocrlf = x\x0b\n\tfsmonitor = ./evil\n")
@given(text=st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@pytest.mark.slow
def test_a_configuration_without_entries_names_no_program_for_git(tmp_path, text):
    path = tmp_path / "config"
    path.write_bytes(text.encode())
    if not list(config_entries(path, tmp_path, tmp_path, SeenFiles())):
        for entry in keys_that_git_reads(path):
            key, _, value = entry.partition("\n")
            assert key not in RUNNING or (key == "core.fsmonitor" and value in {"off", "false", ""}), text


def test_the_judge_would_notice(tmp_path):
    path = tmp_path / "config"
    path.write_text("[CORE]\n\tFSMONITOR = ./evil\n")
    assert keys_that_git_reads(path) == ["core.fsmonitor\n./evil"]
