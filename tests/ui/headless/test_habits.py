"""Flags as users of similar programs write them: spellings, files, JSON, lists, and errors with exit code 2."""

import json
import re

import click
import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from teamwright.ui.cli.command_table import COMMANDS
from teamwright.ui.cli.root import root, spread_directories
from teamwright.ui.headless.slash_command import IN_PLACE
from teamwright.ui.terminal.line_parser import ALIASES, COMMAND_NAMES
from tests.support.model_requests import session_note_of
from tests.ui.program import Program, error_of

pytestmark = pytest.mark.finding("U10")


@pytest.fixture
def model():
    """A model server that answers "Done." and keeps the requests."""
    with LoopbackModel.in_thread(lambda body: "Done.") as server:
        yield server


@pytest.fixture
def program(tmp_path, repo, model):
    return Program(repo, tmp_path / "home", model.url)


def tool_names(body):
    return {tool["name"] for tool in body["tools"]}


def system_text(body):
    return "\n".join(block["text"] for block in body["system"])


def test_v_shows_the_version(program):
    assert program.run("-v").stdout == program.run("--version").stdout != ""


def test_teammate_mode_is_the_backend(program):
    done = program.run("-p", "hi", "--teammate-mode", "no-such-place")
    same = program.run("-p", "hi", "--backend", "no-such-place")
    assert done.returncode == same.returncode != 0
    assert error_of(done) == error_of(same)


def test_system_prompts_come_from_files(program, model, repo):
    (repo / "base.md").write_text("You are a reviewer.\n")
    (repo / "more.md").write_text("Answer in French.\n")
    done = program.run("-p", "hi", "--system-prompt-file", "base.md", "--append-system-prompt-file", "more.md")
    assert done.returncode == 0, done.stderr
    [body] = model.bodies
    assert system_text(body).startswith("You are a reviewer.")
    assert system_text(body).endswith("Answer in French.")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--append-system-prompt-file", "gone.md"), ("gone.md", "--append-system-prompt-file")),
        (("--system-prompt-file", "a.md", "--system-prompt", "x"), ("contradict",)),
        (("--setting-sources", "user,projects"), ("'projects'", "user, project, local")),
        (("--settings", '{"model": '), ("--settings", "not JSON")),
        (("--tools", "Read,Bahs"), ("'Bahs'", "did you mean Bash?")),
    ],
)
@pytest.mark.slow_after(2)
def test_a_wrong_value_is_named_with_what_to_type(program, model, args, words):
    done = program.run("-p", "hi", *args)
    assert done.returncode == 2
    slug, lines = error_of(done)
    assert slug == "usage"
    assert all(word in "\n".join(lines) for word in words)
    assert not model.bodies


def test_settings_are_json_text_too(program, model):
    told = json.dumps({"permissions": {"deny": ["Bash"]}})
    done = program.run("-p", "hi", "--settings", told)
    assert done.returncode == 0, done.stderr
    assert "Bash" not in tool_names(model.bodies[0])
    assert "Read" in tool_names(model.bodies[0])
    listed = program.run("--settings", told, "permissions").stdout
    assert "Bash" in listed


@pytest.mark.parametrize("names", ["Read,Glob", "Read Glob"])
def test_tools_leaves_only_the_named_built_in_ones(program, model, names):
    done = program.run("-p", "hi", "--tools", names)
    assert done.returncode == 0, done.stderr
    assert tool_names(model.bodies[0]) == {"Read", "Glob"}


@pytest.mark.slow
def test_tools_takes_several_words_none_and_default(program, model):
    for args in (("--tools", "Read", "Glob"), ("--tools", ""), ("--tools", "default"), ()):
        done = program.run("-p", *args, "--", "hi")
        assert done.returncode == 0, done.stderr
    offered = [tool_names(body) for body in [{"tools": [], **body} for body in model.bodies]]
    assert offered[:2] == [{"Read", "Glob"}, set()]
    assert offered[2] == offered[3] > {"Read", "Bash"}


@pytest.mark.slow
def test_setting_sources_choose_the_files_that_are_read(program, model, repo):
    program.settings(permissions={"deny": ["Bash"]})
    (repo / ".teamwright").mkdir()
    (repo / ".teamwright/settings.json").write_text(json.dumps({"permissions": {"deny": ["Grep"]}}))
    for args in ((), ("--setting-sources", "user"), ("--setting-sources", "project"), ("--setting-sources", "")):
        assert program.run("-p", "hi", *args).returncode == 0
    missing = [{"Bash", "Grep", "Read"} - tool_names(body) for body in model.bodies]
    assert missing == [{"Bash", "Grep"}, {"Bash"}, {"Grep"}, set()]


@pytest.mark.finding("3I10")
@pytest.mark.slow
def test_setting_sources_without_the_project_leave_out_its_agents_skills_commands_and_servers(program, repo):
    for name, text in {
        ".claude/agents/checker.md": "---\nname: checker\ndescription: d\n---\nCheck.",
        ".claude/commands/deploy.md": "Deploy.",
        ".claude/skills/notes/SKILL.md": "---\nname: notes\ndescription: d\n---\nNote.",
        ".mcp.json": json.dumps({"mcpServers": {"files": {"command": "false"}}}),
    }.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    found = []
    for args in (("--trust",), ("--trust", "--setting-sources", "user"), ("--setting-sources", "user")):
        done = program.run("-p", "hi", "--output-format", "stream-json", "--verbose", *args)
        first = json.loads(done.stdout.splitlines()[0])
        names = [
            *first["agents"],
            *first["slash_commands"],
            *first["skills"],
            *(s["name"] for s in first["mcp_servers"]),
        ]
        found.append({"checker", "deploy", "notes", "files"} & set(names))
        assert "not trusted" not in done.stderr
    done = program.run("-p", "hi", "--trust", "--setting-sources", "user", "--agent", "checker")
    assert done.returncode == 2 and "checker" in done.stderr and "trust" not in done.stderr
    assert found == [{"checker", "deploy", "notes", "files"}, set(), set()]


def test_several_directories_follow_one_flag(program, model, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    done = program.run("-p", "--add-dir", "../one", "../two", "hi")
    assert done.returncode == 0, done.stderr
    assert f"You may also use: {tmp_path / 'one'}, {tmp_path / 'two'}" in session_note_of(model.bodies[0])


def test_words_that_are_no_directories_stay_a_prompt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    args = ["--add-dir", "a", "b", "fix it", "b"]
    assert spread_directories(args) == ["--add-dir", "a", "--add-dir", "b", "fix it", "b"]
    assert spread_directories(["--", "--add-dir", "b", "b"]) == ["--", "--add-dir", "b", "b"]
    assert spread_directories(["-C", "x", "--add-dir", "b", "b"]) == ["-C", "x", "--add-dir", "b", "b"]


@pytest.mark.parametrize(("name", "words"), [("/init", "write AGENTS.md"), ("/review", "not committed")])
def test_a_prompt_of_the_terminal_is_a_prompt_of_a_headless_run(program, model, name, words):
    done = program.run("-p", f"{name} the parser", stdin="a diff")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    [body] = model.bodies
    said = json.dumps(body["messages"])
    assert words in said and "the parser" in said and "a diff" in said


def test_a_command_of_the_person_and_one_without_trust_come_before_a_prompt_of_the_terminal(program, model, repo):
    commands = repo / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "review.md").write_text("Count the lines.")
    untrusted = program.run("-p", "/review")
    assert untrusted.returncode == 2 and "teamwright trust" in untrusted.stderr and model.bodies == []
    assert program.run("-p", "/review", "--trust").returncode == 0
    assert "Count the lines." in json.dumps(model.bodies) and "not committed" not in json.dumps(model.bodies)


@pytest.mark.slow
def test_a_command_of_the_terminal_is_refused_with_what_a_headless_run_has(program, model):
    for name, instead in (("/cost", "teamwright cost"), ("/plan", "--permission-mode plan"), ("/help", "--help")):
        done = program.run("-p", name)
        assert error_of(done)[0] == "usage" and done.returncode == 2
        assert f"{name} is a command of a session at a terminal" in done.stderr and instead in done.stderr
    assert model.bodies == []


def test_what_a_headless_run_has_in_place_of_a_command_exists():
    flags = {name for param in root.get_params(click.Context(root, **root.context_settings)) for name in param.opts}
    for name, instead in IN_PLACE.items():
        assert name in COMMAND_NAMES or name in ALIASES
        for flag in re.findall(r"(?<!\w)--?[a-z-]+", instead):
            assert flag in {*flags, "--help"}, instead
        if instead.startswith("teamwright ") and "--" not in instead:
            assert instead.split()[1] in COMMANDS


def test_a_plan_that_no_user_can_approve_is_named_with_its_file(tmp_path, repo):
    plan = [("ExitPlanMode", {"plan": "1. Change the parser."})]
    with LoopbackModel.in_thread([Answer("", tools=plan), Answer("Planned.")]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "go", "--permission-mode", "plan")
    assert (done.returncode, done.stdout) == (0, "Planned.\n")
    found = re.search(r"teamwright: the plan is not approved; it is in (\S+)", done.stderr)
    assert found is not None, done.stderr
    with open(found[1]) as file:
        assert file.read().strip() == "1. Change the parser."
