"""A person has configuration read again at a terminal, and looks at what fills a window."""

from pathlib import Path

import pytest

from tests.ui.terminal_driver import CTRL_D
from tests.ui.test_terminal_session import at_terminal


@pytest.mark.promise("H4", "K8")
@pytest.mark.slow
def test_a_person_reads_configuration_again_and_sees_what_is_different(repo: Path, own_home):
    with at_terminal(lambda _body: "Well.", repo) as (person, server):
        person.says("hi")
        person.sees("Well.")
        person.says("/reload")
        person.sees("nothing is different")
        (repo / "AGENTS.md").write_text("Whisper always.")
        person.says("/reload")
        person.sees("instructions: +", "from the next model call on: lead")  # a long path breaks where it may
        person.says("hi again")
        person.sees("hi again", "Well.")
        person.types(CTRL_D)
    assert "Whisper always." in str(server.bodies[-1]["messages"])
    assert "Whisper always." not in str(server.bodies[0]["messages"])


@pytest.mark.promise("H6", "K8")
def test_a_person_looks_at_what_fills_a_window(repo: Path, own_home):
    with at_terminal(lambda _body: "Well.", repo) as (person, _):
        person.says("/context")
        person.sees("system prompt", "tools", "free", "all is bytes / 4", "it is compacted at")
        person.says("hi")
        person.sees("Well.")
        person.says("/context")
        person.sees("messages", "as the service counted it")
        person.says("/context @nobody")
        person.sees("'nobody' is not in", "nothing was looked at")
        person.types(CTRL_D)
