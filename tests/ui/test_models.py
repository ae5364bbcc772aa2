"""Another model at a terminal, by name, for the lead and for a member."""

from pathlib import Path

import pytest

from teamwright.ui.terminal.line_completion import candidates
from tests.ui.terminal_driver import CTRL_D
from tests.ui.test_modes import at_work, start
from tests.ui.test_terminal_session import all_told, at_terminal, who


def test_the_tab_key_completes_models_and_members(tmp_path):
    offered = [one.text for one in candidates("/model ha", ["ada"], tmp_path)]
    assert offered == ["haiku"]
    assert [one.text for one in candidates("/model haiku @a", ["ada"], tmp_path)] == ["@ada"]


@pytest.mark.promise("F43", "K8")
@pytest.mark.slow
def test_a_person_looks_at_models_and_changes_them_by_name(repo: Path, own_home):
    (repo / "README.md").write_text("the text")
    with at_terminal(at_work, repo) as (person, server):
        start(person)
        person.says("/model")
        person.sees("lead               ", "ada                ", "window")
        person.says("/model sonet")
        person.sees('no model "sonet"', "did you mean sonnet?", "nothing was changed")
        person.says("/model haiku @addda")
        person.sees("'addda' is not in")
        person.says("/model haiku @ada")
        person.sees("ada        runs on", "haiku")
        person.says("/model opus haiku")
        person.sees("one model, for the lead or for one member")
        person.says("/model opus")
        person.sees("lead       runs on", "opus")
        person.says("read it")
        person.sees("lead       Read README.md")
        person.types(CTRL_D)
    last = next(body for body in reversed(server.bodies) if who(body) == "lead" and "read it" in all_told(body))
    assert "opus" in last["model"]
    assert "opus" not in server.bodies[0]["model"]
