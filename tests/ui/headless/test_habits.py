"""Flags as users of similar programs write them: spellings, files, JSON, lists, and errors with exit code 2."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.ui.cli.root import spread_directories
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


def test_tools_takes_several_words_none_and_default(program, model):
    for args in (("--tools", "Read", "Glob"), ("--tools", ""), ("--tools", "default"), ()):
        done = program.run("-p", *args, "--", "hi")
        assert done.returncode == 0, done.stderr
    offered = [tool_names(body) for body in [{"tools": [], **body} for body in model.bodies]]
    assert offered[:2] == [{"Read", "Glob"}, set()]
    assert offered[2] == offered[3] > {"Read", "Bash"}


def test_setting_sources_choose_the_files_that_are_read(program, model, repo):
    program.settings(permissions={"deny": ["Bash"]})
    (repo / ".teamwright").mkdir()
    (repo / ".teamwright/settings.json").write_text(json.dumps({"permissions": {"deny": ["Grep"]}}))
    for args in ((), ("--setting-sources", "user"), ("--setting-sources", "project"), ("--setting-sources", "")):
        assert program.run("-p", "hi", *args).returncode == 0
    missing = [{"Bash", "Grep", "Read"} - tool_names(body) for body in model.bodies]
    assert missing == [{"Bash", "Grep"}, {"Bash"}, {"Grep"}, set()]


def test_several_directories_follow_one_flag(program, model, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    done = program.run("-p", "--add-dir", "../one", "../two", "hi")
    assert done.returncode == 0, done.stderr
    assert f"You may also use: {tmp_path / 'one'}, {tmp_path / 'two'}" in system_text(model.bodies[0])


def test_words_that_are_no_directories_stay_a_prompt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    args = ["--add-dir", "a", "b", "fix it", "b"]
    assert spread_directories(args) == ["--add-dir", "a", "--add-dir", "b", "fix it", "b"]
    assert spread_directories(["--", "--add-dir", "b", "b"]) == ["--", "--add-dir", "b", "b"]
    assert spread_directories(["-C", "x", "--add-dir", "b", "b"]) == ["-C", "x", "--add-dir", "b", "b"]
