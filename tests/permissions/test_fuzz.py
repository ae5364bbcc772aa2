"""The short form of the permission fuzz: what is allowed without a question is run; `make fuzz` does it for long."""

import pytest

from teamwright.permissions import command_facts
from teamwright.permissions.read_only_commands import CommandReads
from teamwright.shell_lines.programs import file_reads
from teamwright.shell_lines.programs.options import parse_grammar
from tests.permissions.fuzz import judging
from tests.permissions.fuzz.generator import option_rows
from tests.permissions.fuzz.judging import CONFIGURATIONS, CONFINED, OWN_SHELL, READING, SHOWS, Judge
from tests.permissions.fuzz.product_runs import ReadPolicy
from tests.permissions.fuzz.rounds import Round
from tests.permissions.fuzz.sandbox import Sandbox, missing_here
from tests.permissions.fuzz.sweep import Sweep
from tests.support.programs import needs

pytestmark = pytest.mark.skipif(missing_here() != "", reason=missing_here() or "everything is there")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def judge(sandbox, monkeypatch):
    monkeypatch.setenv("HOME", str(sandbox.world.home))
    return Judge(sandbox)


@pytest.mark.slow
@pytest.mark.promise("G1")
@pytest.mark.parametrize("name", ["cut", "sed"])
def test_the_fuzz_finds_a_program_that_the_tables_take_for_harmless(judge, monkeypatch, name):
    """The broken entry says that this program reads nothing, whatever its arguments are."""
    proven = command_facts.prove_read_only
    monkeypatch.setattr(
        command_facts, "prove_read_only", lambda command: CommandReads(()) if command.name == name else proven(command)
    )
    made = Round(judge, "broken table", (name,), {"reading": 1}, shorten=False)
    report = made.play(lines=3_000, stop_at=1)
    assert report.wrong
    assert name in report.wrong[0].line


@pytest.mark.slow
@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    ("name", "broken", "effect"),
    [
        ("rev", "TEXTS", SHOWS),
        ("tac", "FILES -s= -r=", SHOWS),
        ("tty", "TEXTS -s", ""),
        ("uniq", "FILES -c", "changes a file"),
    ],
)
def test_the_systematic_run_finds_what_a_table_says_wrongly(judge, monkeypatch, name, broken, effect):
    """The broken tables: operands that are files, an option without a value, and an operand to which it writes."""
    known = file_reads.program_grammar
    monkeypatch.setattr(
        file_reads, "program_grammar", lambda asked: parse_grammar(broken) if asked == name else known(asked)
    )
    made = Round(judge, "broken table", shorten=False)
    report = Sweep(judge, made).try_program(name)
    assert report.tried > 100
    assert 0 < report.allowed < report.tried
    assert [wrong.effect for wrong in report.wrong[:1]] == ([effect] if effect else [])
    assert (report.wrong_lines > 0) == bool(effect)


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("touch MARK", "changes a file"),
        ("touch_marker", "runs a program"),
        ("chmod 600 a.py", "changes a file"),
        ("git config x.y z", "changes a file"),
        ("(sleep 0.1; touch MARK) > /dev/null 2>&1 &", "changes a file"),
        ("cat ../outside/secret", SHOWS),
        ("cat .env | rev", SHOWS),
        ("ls ..", SHOWS),
        ("test -e ../maybe", SHOWS),
        ("md5sum out/secret", SHOWS),
        ("find . -newer ../stamp", SHOWS),
        ("readlink out/leads", SHOWS),
        ("echo $SECRET_TOKEN", SHOWS),
        ("export", SHOWS),
        ("git show HEAD:conf/.env", f"{SHOWS} (history)"),
    ],
)
def test_the_judge_sees_what_a_line_does(judge, monkeypatch, line, effect):
    allowed = judge.allowed("true", READING)
    monkeypatch.setattr(judge, "allowed", lambda line, configuration: allowed)
    assert judge.judge("true", READING) is None
    wrong = judge.judge(line, READING)
    assert wrong is not None
    assert wrong.effect == effect
    assert judge.judge("git status; ls -la; date", READING) is None


@pytest.mark.slow_after(1)
@needs("zsh")
def test_the_judge_runs_a_line_in_the_user_s_shell_as_a_session_does(sandbox, monkeypatch):
    """Without the mark of lines that zsh reads otherwise, the line is allowed and zsh runs the program in it."""
    line = "build; printf %d 'path[$(touch_marker)]'"
    monkeypatch.setenv("HOME", str(sandbox.world.home))
    judge = Judge(sandbox, "zsh")
    assert judge.allowed("build | cat", OWN_SHELL) is not None
    assert judge.allowed(line, OWN_SHELL) is None
    monkeypatch.setattr(judging, "is_read_otherwise", lambda *_: False)
    wrong = judge.judge(line, OWN_SHELL)
    assert wrong is not None and wrong.effect == "runs a program"


@pytest.mark.slow_after(1)
@needs("bwrap")
def test_the_judge_runs_every_line_in_the_policy_read(monkeypatch):
    """In the policy nothing can be changed and no secret read. With a policy that shows too much, the judge sees it."""
    with Sandbox(is_nested=True) as nested:
        monkeypatch.setenv("HOME", str(nested.world.home))
        lines = ("touch new; rm a.py", "cat .env ../outside/secret ~/.ssh/id_rsa", "ls .. ~")
        judge = Judge(nested)
        assert [judge.judge(line, CONFINED) for line in lines] == [None] * len(lines)
        monkeypatch.setattr(ReadPolicy, "argv", lambda self, argv, env: (argv, env))
        assert all(judge.judge(line, CONFINED) is not None for line in lines)


def test_in_acceptEdits_only_changes_outside_and_of_guarded_files_are_wrong(judge, monkeypatch):
    editing = CONFIGURATIONS["editing"]
    allowed = judge.allowed("true", editing)
    monkeypatch.setattr(judge, "allowed", lambda line, configuration: allowed)
    assert judge.judge("touch new; cp a.py c.py", editing) is None
    assert judge.judge("touch ../new", editing) is not None
    assert judge.judge("touch .git/new", editing) is not None
    assert judge.judge("cp out/secret copy", editing) is not None


def test_the_table_of_options_has_every_program_once():
    rows = option_rows()
    assert len(rows) > 200
    assert {"--number", "-n"} <= set(rows["cat"])
    assert "--compress-program=" in rows["sort"]
