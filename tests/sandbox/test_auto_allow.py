"""Commands that run without a question because the sandbox bounds their effects."""

import pytest

from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.policy import PolicyName, SandboxMode, SandboxSettings
from teamwright.sandbox.sandbox import Implementation, Sandbox
from tests.sandbox.conftest import use
from tests.sandbox.test_sessions import result, run
from tests.support.programs import needs

SETTINGS = '{"sandbox": {"auto_allow": true}}'


@needs("bwrap")
async def test_a_command_inside_the_policy_work_runs_without_a_question(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state/settings.json").write_text(SETTINGS)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/Makefile").write_text(f"all:\n\ttouch inside\n\t-touch {tmp_path}/outside\n")
    model = await run(tmp_path, "make", "git commit -m x")
    assert (tmp_path / "work/inside").exists() and not (tmp_path / "outside").exists()
    assert "git policy" in result(model, 2)


@needs("bwrap")
async def test_without_the_setting_the_command_asks(tmp_path):
    model = await run(tmp_path, "touch a")
    assert not (tmp_path / "work/a").exists() and "no user is present" in result(model, 1)


@needs("bwrap")
async def test_a_line_that_is_only_meant_to_read_runs_where_it_cannot_write(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("one\n")
    model = await run(tmp_path, "ls | xargs wc -l")
    assert "1 a.txt" in result(model, 1)


@pytest.mark.finding("3H4")
@pytest.mark.parametrize("implementation", ["bubblewrap", "landlock"])
async def test_a_line_that_is_only_meant_to_read_gets_no_variable_that_may_have_a_secret(
    tmp_path, monkeypatch, implementation
):
    use(monkeypatch, implementation)
    monkeypatch.setenv("DATABASE_URL", "postgres://ada:hidden@db/shop")
    monkeypatch.setenv("DEPLOY_TOKEN", "hidden")
    monkeypatch.setenv("TOOL_HOME", str(tmp_path))
    (tmp_path / "state").mkdir()
    (tmp_path / "state/settings.json").write_text('{"bash": {"pass_env": ["DEPLOY_TOKEN"]}}')
    (tmp_path / "work").mkdir()
    (tmp_path / "work/names").write_text("/proc/self/environ\n")
    lines = ("echo /proc/self/environ | xargs cat", "xargs cat < names", "cat $(cat names)")
    model = await run(tmp_path, *lines)
    for at, line in enumerate(lines, 1):
        assert "hidden" not in result(model, at) and f"TOOL_HOME={tmp_path}" in result(model, at), line


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("bubblewrap", {PolicyName.READ, PolicyName.WORK}),
        ("landlock", {PolicyName.READ}),
        ("none", set[PolicyName]()),
    ],
)
def test_only_what_an_implementation_holds_answers_questions(confined, monkeypatch, name, answers):
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: Implementation(name))
    assert Sandbox(SandboxSettings(auto_allow=True), confined.place).answers() == answers
    assert Sandbox(SandboxSettings(), confined.place).answers() == answers - {PolicyName.WORK}
    assert not Sandbox(SandboxSettings(mode=SandboxMode.OFF, auto_allow=True), confined.place).answers()


@needs("bwrap")
@pytest.mark.parametrize("line", ["touch inside", "ls | xargs wc -l"])
async def test_a_repository_that_requires_the_sandbox_answers_no_question_for_a_person_who_has_it_off(
    tmp_path, line, monkeypatch
):
    monkeypatch.delenv("TEAMWRIGHT_SANDBOX", raising=False)
    for path, text in {
        "state/settings.json": '{"sandbox": {"mode": "off", "auto_allow": true}}',
        "work/.teamwright/team.toml": '[team]\nsandbox = { mode = "required" }\n',
        "work/a.txt": "one\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    model = await run(tmp_path, line, sandbox=None)
    assert "no user is present" in result(model, 1) and not (tmp_path / "work/inside").exists()
