"""What a hook does to the file of its call belongs to that call: the next edit fits, undo takes both back."""

import json
import subprocess

import pytest

from tests.ui.program import Program

pytestmark = pytest.mark.finding("3F4")

FORMATTER = """
import json, re, sys
path = json.load(sys.stdin)["tool_input"]["file_path"]
text = open(path).read()
open(path, "w").write(re.sub(r"[ \\t]+\\n", "\\n", text))
"""
SCRIPT = """
[script]
name = "format"
{start}
[[agent.{name}.turn]]
[[agent.{name}.turn.call]]
tool = "Read"
input = {{ file_path = "m.txt" }}
[[agent.{name}.turn]]
[[agent.{name}.turn.call]]
tool = "Edit"
input = {{ file_path = "m.txt", old_string = "one", new_string = "ONE   " }}
[[agent.{name}.turn]]
[[agent.{name}.turn.call]]
tool = "Edit"
input = {{ file_path = "m.txt", old_string = "three", new_string = "THREE" }}
[[agent."*".otherwise]]
say = "END"
"""
START = {
    "lead": "",
    "bob": """
[[agent.lead.turn]]
[[agent.lead.turn.call]]
tool = "Agent"
input = { description = "edit", prompt = "Edit it.", name = "bob" }
""",
}


@pytest.fixture
def program(tmp_path, repo):
    (tmp_path / "format.py").write_text(FORMATTER)
    (repo / "m.txt").write_text("one\ntwo\nthree\n")
    subprocess.run(["git", "add", "-A"], cwd=repo, check=True)
    return Program(repo, tmp_path / "home")


def hook(tmp_path, event: str) -> dict:
    command = {"type": "command", "command": f"python3 {tmp_path / 'format.py'}"}
    return {event: [{"matcher": "Edit, Write", "hooks": [command]}]}


@pytest.mark.parametrize(
    ("name", "backend", "event"),
    [
        ("lead", "in-process", "PostToolUse"),
        ("bob", "in-process", "PostToolUse"),
        ("bob", "detached", "PostToolUse"),
        ("lead", "in-process", "PreToolUse"),
    ],
)
@pytest.mark.slow_after(1)
def test_a_formatter_belongs_to_the_edit_and_undo_takes_both_back(tmp_path, program, name, backend, event):
    if event == "PreToolUse":
        (program.cwd / "m.txt").write_text("one\ntwo  \nthree\n")
    was = (program.cwd / "m.txt").read_text()
    (tmp_path / "script.toml").write_text(SCRIPT.format(name=name, start=START[name]))
    program.settings(hooks=hook(tmp_path, event), members={"backend": backend})
    model = ("--model", f"scripted:{tmp_path / 'script.toml'}")
    done = program.run("-p", "go", *model, "--dangerously-skip-permissions", "--output-format", "stream-json")
    text = (program.cwd / "m.txt").read_text()
    assert text.split() == ["ONE", "two", "THREE"], done.stderr
    told = done.stdout.replace("\\n", "\n")
    assert "A hook changed" in told
    assert "counts as part of this call" in told
    assert "Conflict" not in told
    undone = program.run("undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert (program.cwd / "m.txt").read_text() == was
    lines = [
        one for path in program.home.glob("projects/*/*/history/edits.jsonl") for one in path.read_text().split("\n")
    ]
    assert {json.loads(one)["call"] for one in lines if '"after"' in one and '"call"' in one} != {""}
