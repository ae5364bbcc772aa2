"""Commands begin with what the user's own shell makes at its startup: real bash, zsh, startup files of all kinds."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.permissions.shell_verdict import is_proven_read_only
from teamwright.processes.process_tree import list_processes
from teamwright.protocol.errors import CannotStart
from teamwright.tools.shell.bash import Bash, BashInput
from teamwright.tools.shell.bash_settings import BashSettings, remove_variables
from teamwright.tools.shell.startup import RETRY_AFTER_S, ShellStartup, read_snapshot, user_shell
from tests.support.programs import require
from tests.support.waits import WAIT_S

GOLDEN = Path(__file__).parent.parent / "golden"
RC = {"bash": ".bashrc", "zsh": ".zshrc"}

pytestmark = pytest.mark.promise("E7")


@pytest.fixture(params=["bash", "zsh"])
def kind(request: pytest.FixtureRequest) -> str:
    require(request.param)
    return request.param


@pytest.fixture
async def jobs():
    made = BackgroundJobs(grace_s=0.5)
    yield made
    await made.close()


class ScratchRepository:
    """A user's home, the shell of that user, and the tool that runs commands in it."""

    def __init__(self, kind: str, home: Path, jobs: BackgroundJobs, ctx, within_s: float = 30.0) -> None:
        self.kind, self.home, self.ctx = kind, home, ctx
        self.warnings: list[str] = []
        self.file = home / "snapshots" / "s.sh"
        shell = user_shell(require(kind), {})
        self.startup = ShellStartup(
            shell,
            self.file,
            lambda: remove_variables(BashSettings().hidden),
            self.warnings.append,
            timeout_s=within_s,
        )
        self.jobs = jobs
        self.tool = Bash(jobs, BashSettings(grace_s=0.3), is_proven_read_only, self.startup)

    def rc(self, text: str) -> None:
        (self.home / RC[self.kind]).write_text(text)

    async def result(self, command: str, **more):
        call = BashInput(command=command, **more)
        await self.tool.find_facts(call, self.ctx)
        self.tool.access(call, self.ctx)
        return await self.tool.run(call, self.ctx)

    async def run(self, command: str) -> str:
        content = (await self.result(command)).content
        assert isinstance(content, str)
        return content


@pytest.fixture
def context(kind, own_home, jobs, ctx) -> ScratchRepository:
    return ScratchRepository(kind, own_home, jobs, ctx)


async def test_functions_aliases_options_and_path_are_there_in_every_command(context, own_home):
    (own_home / "my bin").mkdir()
    (own_home / "my bin" / "mine").write_text("#!/bin/sh\necho from my bin\n")
    (own_home / "my bin" / "mine").chmod(0o755)
    context.rc(
        'export PATH="$HOME/my bin:$PATH"\nalias hi="echo hi"\nalias two="echo a\necho b"\nset -o noclobber\n'
        'greet() { echo "ü $1 $(_inner)"; }\n_inner() { echo inner; }\nodd.na-me() { cat <<X\n$1\nX\n}\n'
    )
    assert await context.run("hi there; greet you; odd.na-me 'a  b'") == "hi there\nü you inner\na  b"
    assert await context.run("two && (mine) && x=$(hi you) && echo $x") == "a\nb\nfrom my bin\nhi you"
    refused = await context.result("echo 1 > f; echo 2 > f; cat f")
    assert "exist" in refused.content and refused.content.endswith("1")
    assert "greet" in await context.run("type greet") and "echo hi" in await context.run("type hi")
    assert context.warnings == []


@pytest.mark.slow_after(1)
async def test_a_command_ends_moves_and_leaves_things_behind_as_without_a_startup(context, ctx, work):
    context.rc("cd() { echo lies; }\npwd() { echo lies; }\nalias e='exit 7'\n")
    (work / "a b").mkdir()
    ended = await context.result("cd 'a b'; e")
    assert ended.content.startswith("exit code 7") and ctx.workplace.cwd == work / "a b"
    assert "137 (SIGKILL)" in await context.run("kill -9 $$")
    for broken in ("echo 'unclosed", "if true; then"):
        result = await context.result(broken)
        assert result.is_error and "snapshots" not in result.content
    late = await context.result("sleep 600 & sleep 600", timeout=1)
    assert "[ended after 1 s" in late.content
    left = await context.result("sleep 600 & echo $!")
    assert "continue as" in left.content
    begun = await context.result("hi() { echo hi; }; hi; sleep 0", run_in_background=True)
    await asyncio.wait_for(context.jobs.wait(begun.facts["job"], WAIT_S), WAIT_S)
    assert Path(begun.facts["output_file"]).read_text() == "hi\n"


async def test_it_is_taken_once_at_the_first_command_in_the_home_with_an_empty_stdin(context, own_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    context.rc(
        'read -r line; echo "$PWD|$line|$OPENAI_API_KEY" >> ~/seen\necho noise; echo more >&2\n'
        "export TOKEN=hidden-value\nf() { echo f; }\n"
    )
    assert not (own_home / "seen").exists()
    first = await asyncio.gather(*(context.run("f") for _ in range(5)))
    assert first == ["f"] * 5 and await context.run("f; echo $TOKEN") == "f"
    assert (own_home / "seen").read_text() == f"{own_home}||\n"
    other = ShellStartup(context.startup.shell, context.file, lambda: remove_variables(()), context.warnings.append)
    assert await other.ensure_ready() == context.startup.snapshot and (own_home / "seen").read_text().count("\n") == 1
    assert context.file.stat().st_mode & 0o777 == 0o600 and context.file.parent.stat().st_mode & 0o777 == 0o700
    assert "hidden-value" not in context.file.read_text() and os.listdir(context.file.parent) == ["s.sh"]


async def test_a_changed_startup_file_or_a_removed_snapshot_is_read_anew(context):
    context.rc("f() { echo old; }\n")
    assert await context.run("f") == "old"
    context.rc("f() { echo newer; }\n")
    assert await context.run("f") == "old", "within one life it stays"
    context.file.unlink()
    assert await context.run("f") == "newer"
    context.rc("f() { echo newest of all; }\n")
    again = ShellStartup(context.startup.shell, context.file, lambda: remove_variables(()), context.warnings.append)
    assert await again.ensure_ready() is not None and "newest" in context.file.read_text()


@pytest.mark.parametrize(
    "text",
    ["exit 3\n", "exec sh\n", "exec sleep 600\n", "sleep 600\n", "while :; do echo noise; done\n", "kill -9 $$\n"],
)
@pytest.mark.slow_after(1)
async def test_a_startup_that_fails_costs_one_warning_and_commands_run_without_it(
    kind, own_home, jobs, ctx, text, monkeypatch
):
    context = ScratchRepository(kind, own_home, jobs, ctx, within_s=1.0)
    context.rc(f"f() {{ echo f; }}\n{text}")
    assert await context.run("echo $((1+1)) | cat -; cd .") == "2"
    assert "f: " in (await context.run("f")).replace("command not found: f", "f: ")
    assert len(context.warnings) == 1 and "gave nothing" in context.warnings[0] and str(kind) in context.warnings[0]
    assert context.startup.snapshot is None and context.startup.command_path("/a:/b") == "/a:/b"
    told: list[str] = []
    other = ShellStartup(context.startup.shell, context.file, lambda: remove_variables(()), told.append, timeout_s=1.0)
    assert await other.ensure_ready() is None and told == [], "another process of the session need not try it"
    context.rc("f() { echo f; }\n")
    then = time.time() - RETRY_AFTER_S - 5
    os.utime(context.file, (then, then))
    later = ShellStartup(context.startup.shell, context.file, lambda: remove_variables(()), told.append)
    assert await later.ensure_ready() is not None and told == []


async def test_what_the_startup_left_in_the_background_is_ended(context, own_home):
    context.rc("sleep 600 & echo $! > ~/pid\nf() { echo f; }\n")
    assert await context.run("f") == "f"
    pid = int((own_home / "pid").read_text())
    assert pid not in {row.pid for row in list_processes()}


async def test_options_that_would_end_or_trace_every_command_and_traps_are_left_out(context):
    context.rc("f() { echo f; }\ntrap 'echo trapped' EXIT\nPROMPT_COMMAND='echo prompt'\nset -u -x\n")
    assert await context.run("false; f; echo $nothing_set") == "f"


async def test_a_set_e_of_the_startup_does_not_end_commands(context):
    context.rc("f() { echo f; }\nset -e\n")
    assert await context.run("false; f") == "f"


async def test_an_alias_that_only_asks_first_is_left_out_since_nobody_can_answer(context, work):
    context.rc("alias rm='rm -i'\nalias cp='cp -iv'\nalias mv='mv --interactive'\nalias grep='grep -i'\n")
    (work / "x").write_text("A")
    assert "a" not in await context.run("mkdir -p d; cp x y; grep a y; rm x y") and not (work / "x").exists()
    assert set(context.startup.snapshot.aliases) >= {"grep"} and "rm" not in context.startup.snapshot.aliases


async def test_an_alias_that_finds_its_command_by_a_function_with_a_computed_name_works(context, work):
    """As oh-my-bash does it: the alias leads to a function, which calls `_select_` and the name."""
    context.rc(
        "_select_cp() { chosen='cp -iv'; }\n_select_ls() { chosen='ls -d'; }\n"
        '_first_use() { local chosen=$1; "_select_$1" || return 1; eval "command $chosen \\"\\${@:2}\\""; }\n'
        '_init_cp() { _first_use cp "$@"; }\n_init_ls() { _first_use ls "$@"; }\n'
        "alias cp=_init_cp\nalias ls=_init_ls\nf() { echo f; }\n"
    )
    (work / "x").write_text("new")
    (work / "y").write_text("old")
    assert await context.run("f; ls --color=never .; cp x y") == "f\n."
    assert (work / "y").read_text() == "new"
    assert "cp" not in context.startup.snapshot.aliases, "it would ask before it replaces a file"


async def test_what_is_proven_to_only_read_runs_without_functions_and_aliases(context, work):
    context.rc("ls() { touch pwned; }\nalias cat='touch pwned2'\nalias type='touch pwned3'\nwc() { touch pwned4; }\n")
    (work / "a").write_text("text\n")
    assert await context.run("ls | cat -; cat a; wc -l < a") and await context.run("type ls")
    assert sorted(os.listdir(work)) == ["a"]
    await context.run("ls; rm -f nothing")
    assert sorted(os.listdir(work)) == ["a"], "a command that reads is the program also beside others"
    await context.run("wc --no-such-option; rm -f nothing")
    assert "pwned4" in os.listdir(work), "what is asked about is the user's own"


@pytest.mark.parametrize("line", ["cd .; {}", "x=1; {}", "LC_ALL=C {}", "mkdir -p sub; {}"])
async def test_a_line_that_a_mode_allows_runs_in_the_shell_that_the_rules_read(own_home, jobs, ctx, work, line):
    """zsh evaluates arithmetic in `printf %d PATH=0`, and then finds programs in the directory `0`."""
    context = ScratchRepository("zsh", own_home, jobs, ctx)
    context.rc("cd() { touch pwned; }\n")
    (work / "0").mkdir()
    (work / "0" / "ls").write_text("#!/bin/sh\necho ran > ran\n")
    (work / "0" / "ls").chmod(0o755)
    await context.run(line.format("printf '%d' 'PATH=0'; ls"))
    assert not {"ran", "pwned"} & set(os.listdir(work))


async def test_a_pattern_of_a_line_that_a_mode_allows_names_the_files_of_the_verdict(context, work):
    context.rc({"bash": "shopt -s dotglob\n", "zsh": "setopt globdots\n"}[context.kind])
    (work / "conf").mkdir()
    (work / "conf" / ".env").write_text("KEY=secret\n")
    assert "secret" not in await context.run("cd .; cat conf/*")


async def test_functions_and_files_that_the_environment_names_do_not_reach_what_is_proven(context, work, monkeypatch):
    (work / "evil").write_text("touch pwned\n")
    monkeypatch.setenv("BASH_ENV", str(work / "evil"))
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { touch pwned; }")
    assert await context.run("ls") == "evil"
    assert sorted(os.listdir(work)) == ["evil"]


async def test_huge_and_odd_functions_are_quick_and_a_broken_one_takes_no_other_with_it(context):
    many = "".join(f"big_{n}() {{\n" + "  echo line of a function\n" * 20 + "}\n" for n in range(300))
    context.rc(many + "alias echo='echo now'\nemoji_🎉() { printf '%s' 'é\"$x`'; }\n")
    assert (await context.run("big_299 | head -1")).endswith("line of a function")
    assert await context.run("emoji_🎉; true") == 'é"$x`'


async def test_a_function_that_cannot_be_read_again_is_left_out_alone(context, monkeypatch):
    from teamwright.tools.shell import startup as module

    real = module.parse_dump

    def with_broken(kind, content):
        dump = real(kind, content)
        assert dump is not None
        functions = {**dump.functions, "broken": "broken () { if ; }}", "zz": "zz () { echo zz; }"}
        return module.ShellDump(dump.options, dump.path, dump.aliases, functions)

    monkeypatch.setattr(module, "parse_dump", with_broken)
    context.rc("f() { echo f; }\n")
    assert await context.run("f; zz") == "f\nzz" and context.warnings == []


async def test_path_keeps_what_was_activated_and_drops_relative_entries(context, own_home, monkeypatch):
    usual = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"/my/venv/bin:{usual}")
    context.rc('PATH="$HOME/tools:./node_modules/.bin::$PATH"\n')
    await context.run("cd .")
    found = context.startup.command_path(os.environ["PATH"]).split(":")
    assert "/my/venv/bin" in found and f"{own_home}/tools" in found and all(entry.startswith("/") for entry in found)
    assert "/my/venv/bin" in await context.run("printf %s $PATH; cd .")
    context.ctx.workplace.env["PATH"] = "/bin:/usr/bin"
    assert await context.run("printf %s $PATH; cd .") == "/bin:/usr/bin", "settings name it themselves"


async def test_variables_of_a_repository_do_not_reach_the_startup(context, own_home, work):
    (work / "evil").write_text("echo evil >> ~/seen\n")
    (work / ".zshrc").write_text("echo evil >> ~/seen\n")
    (work / RC[context.kind]).write_text("echo evil >> ~/seen\n")
    context.ctx.workplace.env.update(BASH_ENV=str(work / "evil"), ENV=str(work / "evil"), ZDOTDIR=str(work))
    context.rc("f() { echo f; }\n")
    await context.startup.ensure_ready()
    assert context.startup.snapshot is not None and not (own_home / "seen").exists()
    assert await context.run("ls .") is not None and not (own_home / "seen").exists()


async def test_bash_reads_its_bashrc_also_where_the_profile_does_not(own_home, jobs, ctx):
    context = ScratchRepository("bash", own_home, jobs, ctx)
    (own_home / ".bash_profile").write_text("echo p >> ~/seen\np() { echo p; }\n")
    context.rc("echo rc >> ~/seen\nf() { echo f; }\n")
    assert await context.run("p; f") == "p\nf" and (own_home / "seen").read_text() == "p\nrc\n"
    (own_home / ".bash_profile").write_text("p() { echo p; }\n. ~/.bashrc\n")
    context.file.unlink()
    assert await context.run("p; f") == "p\nf" and (own_home / "seen").read_text() == "p\nrc\nrc\n"


async def test_zsh_has_its_options_and_autoloaded_functions_but_no_global_alias(own_home, jobs, ctx, work):
    context = ScratchRepository("zsh", own_home, jobs, ctx)
    (own_home / "fns").mkdir()
    (own_home / "fns" / "auto").write_text("echo auto $1\n")
    context.rc(
        "fpath=(~/fns $fpath); autoload -Uz auto compinit; setopt extendedglob nullglob histignoredups correct\n"
        "alias -g G='| touch global'\nalias -s txt='touch suffix'\nchpwd() { echo moved; }\n"
        "'semi;colon'() { echo s; }\nzshexit() { echo bye; }\nTRAPEXIT() { echo trap; }\n"
    )
    (work / "a.txt").write_text("")
    assert await context.run("auto on; echo G none*; cd .; 'semi;colon'") == "auto on\nG\ns"
    assert "a.txt" in await context.run("print -l ^*.py; true") and sorted(os.listdir(work)) == ["a.txt"]
    assert await context.run("noglob echo *.txt; true") == "*.txt"


async def test_what_zsh_would_read_otherwise_than_the_rules_runs_in_bash(own_home, jobs, ctx, work):
    context = ScratchRepository("zsh", own_home, jobs, ctx)
    await context.run("echo secret >! kept")
    assert sorted(os.listdir(work)) == ["!"] and (work / "!").read_text() == "secret kept\n"
    assert "=touch" in await context.run("=touch made") and "repeat" in await context.run("repeat 2 touch made")
    assert not (work / "made").exists()


async def test_a_plain_sh_reads_no_startup(own_home, jobs, ctx):
    startup = ShellStartup(user_shell("/bin/sh", {}), own_home / "s.sh", dict, [].append)
    tool = Bash(jobs, BashSettings(), is_proven_read_only, startup)
    assert (await tool.run(BashInput(command="echo hi; cd ."), ctx)).content == "hi"
    assert not (own_home / "s.sh").exists()


def test_the_shell_is_the_named_one_else_the_user_s_else_bash():
    bash = require("bash")
    assert user_shell("", {"SHELL": bash}).path == bash and "$SHELL" in user_shell("", {"SHELL": bash}).reason
    for other in ("/usr/bin/fish", "/nowhere/zsh", "zsh", ""):
        assert user_shell("", {"SHELL": other}).kind == "bash"
    assert user_shell("sh", {"SHELL": bash}).kind == "sh" and "bash.shell" in user_shell("bash", {}).reason
    for wrong in ("fish", "/nowhere/bash", "./bash", "bash -x", "/etc"):
        with pytest.raises(CannotStart, match="cannot be used"):
            user_shell(wrong, {})


def test_a_snapshot_is_read_as_the_golden_file_has_it_and_a_damaged_one_is_none(tmp_path):
    known = read_snapshot(GOLDEN / "shell_snapshot_v2.sh")
    assert known is not None and known.path == "/home/ada/bin:/usr/bin" and known.aliases == {"gp": "git push"}
    assert known.functions == ("greet",)
    assert known.startup.startswith("/bin/bash; ") and known.failed == ""
    for content in (
        b"",
        b"# teamwright shell snapshot 1\n# {}\n",
        b"# teamwright shell snapshot 2\n# [1]\n",
        b"\xff\0",
    ):
        (tmp_path / "s.sh").write_bytes(content)
        assert read_snapshot(tmp_path / "s.sh") is None
    assert read_snapshot(tmp_path / "none") is None
