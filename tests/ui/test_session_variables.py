"""What hooks of SessionStart write to CLAUDE_ENV_FILE reaches the later commands of their session, and only those."""

import json
import signal
from pathlib import Path

import pytest

from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program

pytestmark = [pytest.mark.finding("S5"), pytest.mark.usefixtures("unconfined")]

SKIP = "--dangerously-skip-permissions"
TURN = """
[[agent.{name}.turn]]
[[agent.{name}.turn.call]]
tool = "{tool}"
input = {input}
"""
REST = """
[[agent."*".otherwise]]
say = "Done."
"""


def turn(agent: str, tool: str, /, **fields: str) -> str:
    text = "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in fields.items()) + " }"
    return TURN.format(name=agent, tool=tool, input=text)


def bash(name: str, command: str) -> str:
    return turn(name, "Bash", command=command, description="show the variable")


def hook(*lines: str, matcher: str = "") -> dict[str, object]:
    command = "; ".join(f"""echo '{line}' >> "$CLAUDE_ENV_FILE\"""" for line in lines)
    return {"SessionStart": [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]}


def program(tmp_path: Path, repo: Path, *turns: str) -> Program:
    (tmp_path / "script.toml").write_text('[script]\nname = "variables"\n' + "".join(turns) + REST)
    return Program(repo, tmp_path / "home", env={"TEAMWRIGHT_MODEL": f"scripted:{tmp_path / 'script.toml'}"})


def flags(made: Program) -> tuple[str, ...]:
    return ("-p", "go", "--model", made.env["TEAMWRIGHT_MODEL"])


@pytest.mark.parametrize("backend", ["in-process", "detached"])
def test_a_variable_reaches_the_lead_its_teammates_and_sub_agents(tmp_path, repo, backend):
    show = f'echo "$STAGE" > {tmp_path}/'
    made = program(
        tmp_path,
        repo,
        bash("lead", f"{show}lead"),
        turn("lead", "Agent", description="show it", prompt="Show it.", name="bob"),
        turn("lead", "Agent", description="show it", prompt="Show it."),
        bash("bob", f"{show}bob"),
        bash("lead", f"{show}sub-agent"),
    )
    made.settings(
        hooks=hook("export STAGE=first one", "export STAGE=second", "PATH=/nowhere"), members={"backend": backend}
    )
    done = made.run(*flags(made), SKIP)
    assert done.returncode == 0, done.stderr
    found = {name: (tmp_path / name).read_text() for name in ("lead", "bob", "sub-agent")}
    assert found == dict.fromkeys(found, "second\n"), done.stderr
    assert "line 1 is not used" in done.stderr and "line 3: PATH is not set" in done.stderr
    [session] = (made.home / "session-env").iterdir()
    removed = made.run("sessions", "rm", session.name, "--force", "--yes")
    assert removed.returncode == 0 and not session.exists(), removed.stderr


def test_a_variable_of_a_killed_session_is_there_when_it_continues(tmp_path, repo):
    mark = Mark(tmp_path / "mark")
    made = program(
        tmp_path,
        repo,
        bash("lead", f'echo "$STAGE" > {mark.path}; sleep 300'),
        bash("lead", f'echo "$STAGE" > {tmp_path}/again'),
    )
    made.settings(hooks=hook("export STAGE=test", matcher="startup"))
    killed = made.start(*flags(made), SKIP)
    try:
        assert mark.wait() == "test"
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.communicate(timeout=WAIT_S)
    done = made.run(*flags(made), SKIP, "--continue")
    assert (tmp_path / "again").read_text() == "test\n", done.stderr


@pytest.mark.parametrize("trust", [False, True])
def test_a_hook_of_a_repository_sets_variables_only_once_it_is_trusted(tmp_path, repo, trust):
    made = program(tmp_path, repo, bash("lead", f'echo "stage:$STAGE" > {tmp_path}/lead'))
    (repo / ".teamwright").mkdir()
    (repo / ".teamwright" / "settings.json").write_text(json.dumps({"hooks": hook("export STAGE=theirs")}))
    done = made.run(*flags(made), SKIP, *(["--trust"] if trust else []))
    assert (tmp_path / "lead").read_text() == ("stage:theirs\n" if trust else "stage:\n"), done.stderr


@pytest.mark.parametrize(
    ("line", "command"),
    [("TOOL=ls", "$TOOL main.py"), ("USER=main.py -o out", "sort $USER"), ("FLAG=-delete", "find . -name x $FLAG")],
)
def test_no_variable_turns_a_question_into_a_permission(tmp_path, repo, line, command):
    verdicts: list[str] = []
    for lines in ((), (f'export {line.partition("=")[0]}="{line.partition("=")[2]}"',)):
        made = program(tmp_path, repo, bash("lead", command))
        made.settings(hooks=hook(*lines) if lines else {})
        done = made.run(*flags(made), "--ask", "deny", "--output-format", "json")
        verdicts.append(str([one["tool_input"] for one in json.loads(done.stdout)["permission_denials"]]))
    assert verdicts[0] == verdicts[1]
    assert not (repo / "out").exists()
