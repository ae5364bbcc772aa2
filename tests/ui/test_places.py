"""Where members run, through the real command line: the flag, the user's settings, a hostile repository, `doctor`."""

import json

import pytest

from tests.ui.program import Program


@pytest.fixture
def program(tmp_path, repo):
    made = Program(repo, tmp_path / "home")
    for name in ("TMUX", "TMUX_PANE"):
        made.env[name] = ""
    return made


def members_of(program):
    done = program.run("doctor", "--json")
    rows = json.loads(done.stdout)["findings"]
    return {row["label"]: row for row in rows if row["section"] == "members"}


def saved(program, content):
    program.home.mkdir(parents=True, exist_ok=True)
    (program.home / "settings.json").write_text(json.dumps(content))


@pytest.mark.promise("E5", "F33")
@pytest.mark.parametrize("command", [["-p", "hi"], ["demo"]])
@pytest.mark.slow_after(1)
def test_a_backend_that_nothing_has_is_refused_before_anything_starts(program, command):
    done = program.run(*command, "--backend", "tmxu")
    assert done.returncode == 2, done.stderr
    assert "'tmxu' is no backend for members" in done.stderr
    assert "did you mean tmux?" in done.stderr
    assert "[unknown-session]" in program.run("resume", "x", "-p", "--backend", "tmux").stderr  # it is understood there


@pytest.mark.promise("E4", "F33")
def test_a_recipe_with_a_mistake_stops_the_start_with_file_and_key(program):
    saved(program, {"members": {"adapters": {"mine": {"open": "xterm -e {argv}", "alive": ["a"], "close": ["b"]}}}})
    done = program.run("-p", "hi")
    assert done.returncode == 3
    assert "a command is a list of arguments, not a line for a shell" in done.stderr
    assert "members.adapters.mine.open" in done.stderr
    assert str(program.home / "settings.json") in done.stderr
    assert "[bad-settings]" in done.stderr


@pytest.mark.promise("E5", "F33")
@pytest.mark.slow
def test_doctor_explains_the_choice_and_a_repository_has_no_say_in_it(program):
    adapter = {"open": ["sh", "{argv}"], "alive": ["sh", "{mark}"], "close": ["sh", "{id}"]}
    theirs = program.cwd / ".teamwright" / "settings.json"
    theirs.parent.mkdir()
    theirs.write_text(json.dumps({"members": {"backend": "mine", "adapters": {"mine": adapter}}}))
    for args in ([], ["trust", "--yes"]):
        if args:
            program.run(*args)
        found = members_of(program)
        assert found["backend"]["value"] == "in-process: members.backend is auto, and the lead has no terminal"
        assert "mine" not in found
    saved(program, {"members": {"backend": "detached", "adapters": {"mine": adapter}}})
    found = members_of(program)
    assert found["backend"]["value"] == "detached: members.backend is detached, and it was asked for"
    assert found["mine"]["value"] == "can be used (yours)"
