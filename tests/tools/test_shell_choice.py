"""A line that rules or modes allow is read by the shell that runs it as it was read for the verdict."""

import os
from pathlib import Path

import pytest

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.shell_verdict import is_proven_read_only
from teamwright.permissions.verdict import Mode, Verdict
from teamwright.shell_lines.ambiguity import is_read_alike
from teamwright.tools.shell.bash import Bash, BashInput
from teamwright.tools.shell.bash_settings import BashSettings
from teamwright.tools.shell.startup import ShellStartup, user_shell
from tests.support.programs import require

pytestmark = pytest.mark.promise("E7")

OPTIONS = {
    "bash": "shopt -s cdable_vars dotglob extglob lastpipe nocaseglob nullglob\nset -o physical\n",
    "zsh": "setopt cdablevars chaselinks extendedglob globdots globsubst ksharrays magicequalsubst nocaseglob\n",
}
"""Options of a user that change which files a line names."""


class User:
    """A user with a shell, and a session in which `build`, a function of that shell, is allowed."""

    def __init__(self, kind: str, home: Path, jobs: BackgroundJobs, ctx, work: Path) -> None:
        self.ctx = ctx
        startup = {"bash": ".bashrc", "zsh": ".zshrc"}[kind]
        (home / startup).write_text(f"build() {{ echo built; }}\ncat() {{ touch made; }}\n{OPTIONS[kind]}")
        shell = user_shell(require(kind), {})
        self.startup = ShellStartup(shell, home / "snapshots" / "s.sh", lambda: {"HOME": str(home)}, [].append)
        self.tool = Bash(jobs, BashSettings(grace_s=0.3), is_proven_read_only, self.startup)
        rules = (
            *parse_rules(("Bash(build:*)",), Verdict.ALLOW, "user", work),
            *parse_rules(("Read(.env)",), Verdict.DENY, "user", work),
        )
        self.policy = Policy(Mode.DEFAULT, rules, PermissionScope((work,), base=work))

    async def verdict(self, line: str) -> Verdict:
        call = BashInput(command=line)
        await self.tool.find_facts(call, self.ctx)
        return self.policy.decide("Bash", self.tool.access(call, self.ctx)).verdict

    async def output(self, line: str) -> str:
        """Run the line if it is allowed without a question, and return its output."""
        call = BashInput(command=line)
        await self.tool.find_facts(call, self.ctx)
        decision = self.policy.decide("Bash", self.tool.access(call, self.ctx))
        if decision.verdict is not Verdict.ALLOW:
            return ""
        content = (await self.tool.run(call, self.ctx)).content
        assert isinstance(content, str)
        return content


@pytest.fixture
async def jobs():
    made = BackgroundJobs(grace_s=0.5)
    yield made
    await made.close()


@pytest.fixture
def project(work: Path, own_home: Path) -> Path:
    (own_home / "key").write_text("SECRET\n")
    for name in (".env", "conf/.env", "sub/.env"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("SECRET\n")
    (work / "c.txt").write_text("plain\n")
    (work / "sub" / "up").symlink_to(own_home)
    return work


@pytest.fixture(params=["bash", "zsh"])
def user(request: pytest.FixtureRequest, own_home: Path, jobs: BackgroundJobs, ctx, project: Path) -> User:
    return User(request.param, own_home, jobs, ctx, project)


@pytest.mark.parametrize(
    "line",
    [
        "build; cat conf/*",
        "build; cat .E*",
        "build; cd HOME && cat key",
        "build; x='@(.env)'; cat $x",
        "build; x='+(.env)'; cat $x",
        "build; cat .env#",
        "build; x='.env#'; cat $x",
        "build; printf %d 'path[$(touch made)]'",
        "build; printf %f 'path[$(touch made)]'",
        "build; continue 'path[$(touch made)]'",
        "build; exit 'path[$(touch made)]'",
        "build; eval 'cat .env#'",
        "build; true | cd sub; cat up/key",
        "build; true | while true; do cd sub; break; done; cat up/key",
        "build; cat c.txt",
        "x=1; printf %d 'path[$(touch made)]'; build",
    ],
)
@pytest.mark.slow_after(7)
async def test_a_line_with_an_allowed_function_reads_and_runs_no_more_than_its_verdict_says(user, project, line):
    """The user's options and zsh's own reading apply to functions, never to the words of the line."""
    assert "SECRET" not in await user.output(line)
    assert not (project / "made").exists()


async def test_a_plain_line_with_an_allowed_function_runs_without_a_question(user):
    assert await user.output("build && cat c.txt 2>/dev/null | tail -5") == "built\nplain"
    assert await user.output("build --for 'a b' \"c\"; ls c.txt >/dev/null || exit 1") == "built"


async def test_a_function_in_a_line_that_zsh_may_read_otherwise_is_asked_about(own_home, jobs, ctx, project):
    user = User("zsh", own_home, jobs, ctx, project)
    assert await user.verdict("build *") is Verdict.ASK
    assert await user.verdict("build; for x in a b; do echo $x; done") is Verdict.ASK
    assert await user.verdict("build; echo c*") is Verdict.ASK
    bash = User("bash", own_home, jobs, ctx, project)
    assert await bash.verdict("build; echo c*") is Verdict.ALLOW


@pytest.mark.parametrize("name", ["POSIXLY_CORRECT", "BASH_ENV", "BASHOPTS", "GLOBIGNORE"])
async def test_the_environment_of_a_user_does_not_change_how_a_line_is_read(user, own_home, monkeypatch, name):
    (own_home / "options").write_text("shopt -s dotglob\n")
    values = {"BASH_ENV": str(own_home / "options"), "BASHOPTS": "dotglob"}
    monkeypatch.setenv(name, values.get(name, "x"))
    for first in ("true", "build"):
        assert "SECRET" not in await user.output(f"{first}; cat conf/*")
        assert "SECRET" not in await user.output(f"{first}; grep -h SEC c.txt -e {own_home}/key")


@pytest.mark.finding("3H9")
async def test_variables_of_settings_give_git_no_configuration_and_no_other_repository(user):
    place = user.ctx.workplace
    given = {"GIT_CONFIG_PARAMETERS": "'core.fsmonitor=./x'", "GIT_DIR": "x", "PORT": "1"}
    place.env = {**place.env, **given}
    env = user.tool.environment(place)
    assert env["PORT"] == "1" and not given.keys() & env.keys() - {"PORT"}


@pytest.mark.finding("3H8")
@pytest.mark.parametrize("line", ["cd conf && cat x", "build; cd conf && cat x", "cat ~/x"])
async def test_variables_of_settings_lead_a_line_to_no_other_files_than_its_verdict_knows(
    user, own_home, monkeypatch, line
):
    work, other = user.ctx.workplace.cwd, own_home / "other"
    (other / "conf").mkdir(parents=True)
    (other / "conf/x").write_text("SECRET")
    (other / "x").write_text("SECRET")
    (work / "conf/x").write_text("PLAIN")
    monkeypatch.setenv("HOME", str(work / "conf"))
    settings = {"CDPATH": str(other), "GLOBIGNORE": "*", "LC_ALL": "zh_CN.GBK"}
    monkeypatch.setattr(user.tool, "_env", {**os.environ, **settings, **({"HOME": str(other)} if "~" in line else {})})
    output = await user.output(line)
    assert "PLAIN" in output and "SECRET" not in output


@pytest.mark.parametrize(
    "text",
    [
        *("a <1-2>", "a<1-2> b", "a == b", "a =ls", "x==ls", "a ~b", "a^", "a#", "a {b,c}", "a $x", "a ${x}", "a (b)"),
        *("a &", "a &| b", "a |& b", "a >! b", "a >& b", "a ;; b", 'a "$x"', 'a "$X[1]"', 'a "$X:h"', "a `b`", "a *"),
        *('a "$(b)"', "a\\ b", 'a "\\b"', "- a", "repeat 2 a", "a; - b", "a $?[1]", "a <-5>", 'a "!b"', "[^a]"),
    ],
)
def test_text_that_shells_may_read_differently_is_known(text):
    assert not is_read_alike(text)


@pytest.mark.parametrize(
    "text",
    [
        *("npm test", "npm test 2>&1 | tail -5", "a && b || c; d\ne", "X=1 a --b=c 'd $e' \"f g\"", "a > b", "a >> b"),
        *("a < b", "a >/dev/null 2>&1", 'echo "$HOME" $?', "if a; then b; fi", "a@b:c,d+e%f"),
    ],
)
def test_plain_text_is_read_alike_by_all_shells(text):
    assert is_read_alike(text)
