"""The command line: what is a prompt and what a command, flags in both spellings, errors, pipes and exit codes."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import click
import pexpect
import pytest

import teamwright.ui.headless.run as headless_face
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.prompt import store_prefix
from teamwright.models.model import Prefix
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.events import MemberChanged
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.session.command_start import mask_secrets, platform_name, require_platform
from teamwright.storage.event_log import EventLog
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.command_table import COMMANDS
from teamwright.ui.cli.flags import PERMISSION_MODES
from teamwright.ui.cli.main import main
from teamwright.ui.cli.root import root, spread_rules
from teamwright.ui.cli.usage_errors import RISKY_FLAGS
from teamwright.ui.invocation import Invocation
from tests.support import preloaded
from tests.support.waits import WAIT_S

PROGRAM = [sys.executable, "-m", "teamwright"]
LIKE_A_KEY = "-".join(("sk", "ant", "api03", "abcdefghijklmnop"))
SESSION = "7f3a0000-0000-4000-8000-000000000001"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Invocation]:
    """The calls that reach the headless face, which does nothing but remember them."""
    seen: list[Invocation] = []
    monkeypatch.setattr(headless_face, "run_headless", lambda invocation: seen.append(invocation) or 0)
    return seen


def write_session(cwd: Path, id: str = SESSION, prompt: str = "count the lines") -> Path:
    home = resolve_home(None)
    home.prepare()
    prefix = Prefix.build({"model": "m", "system": []})
    store_prefix(home.session(cwd, id) / "prefixes", prefix)
    about = {"session": id, "member": LEAD, "agent_id": LEAD, "cwd": str(cwd), "model": "m"}
    talk = Conversation.start(home.transcript(cwd, id), prefix, about)
    talk.append_user_message(UserMessage((text_block(prompt),), ("prompt:1",)))
    talk.close()
    return talk.path


def run(*args: str, **more) -> subprocess.CompletedProcess[str]:
    return preloaded.run([*PROGRAM, *args], text=True, timeout=WAIT_S, **{"stdin": subprocess.DEVNULL, **more})


# ── start-up ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_help_and_version_load_click_and_nothing_of_ours_but_the_command_line():
    heavy = ("asyncio", "pydantic", "httpx2", "prompt_toolkit", "rich", "tree_sitter", "yaml", "json")
    code = (
        "import sys\nfrom teamwright.ui.cli.main import main\n"
        "codes = [main(['--help']), main(['-V'])]\n"
        f"heavy = [m for m in {heavy!r} if m in sys.modules]\n"
        "rooms = sorted({m.split('.')[1] for m in sys.modules if m.startswith('teamwright.')})\n"
        "print(codes, heavy, rooms, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S)
    assert done.stderr.strip() == "[0, 0] [] ['ui']"
    assert "teamwright 0." in done.stdout


def test_help_is_at_most_80_columns_and_names_every_command_and_flag(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert all(f"  {name} " in shown for name in COMMANDS)
    for flag in ("--model", "--max-budget-usd", "--report", "--strict", "--resume", "-C", "--home", "--trust"):
        assert flag in shown


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_of_the_table_loads_and_explains_itself(name: str, capsys: pytest.CaptureFixture[str]):
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: teamwright {name}" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("slug", ["no-model", "[no-model]"])
def test_help_explains_an_error_by_its_slug(slug: str, capsys: pytest.CaptureFixture[str]):
    assert main(["help", slug]) == 0
    shown = capsys.readouterr().out
    assert "No model was named and no key was found. Exit code 3." in shown
    assert "teamwright: no model to talk to" in shown
    assert "](" not in shown
    assert main(["help", "no-modle"]) == 2
    assert "teamwright help no-model" in capsys.readouterr().err


def test_the_modes_of_the_flag_are_those_that_decide():
    assert set(PERMISSION_MODES) == {str(mode) for mode in Mode if mode is not Mode.BUBBLE}


# ── prompt or command ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("K8")
@pytest.mark.parametrize(
    ("args", "prompt"),
    [
        (["-p", "do this"], "do this"),
        (["do this", "-p"], "do this"),
        (["-p", "log"], "log"),
        (["-p", "--", "--help"], "--help"),
        (["--print", "do", "--model", "sonnet"], "do"),
        (["-p", "--allowedTools", "Read", "Bash(git log *)", "look at it"], "look at it"),
    ],
)
def test_the_first_word_is_a_prompt_unless_it_names_a_command(args: list[str], prompt: str, calls: list[Invocation]):
    assert main(args) == 0
    assert calls[0].prompt == prompt
    assert calls[0].blocks[0] == {"type": "text", "text": prompt}


def test_behind_two_dashes_a_command_is_a_prompt(calls: list[Invocation], capsys: pytest.CaptureFixture[str]):
    assert main(["--", "log"]) == 2  # a prompt without -p, and nobody is here
    assert "not a terminal" in capsys.readouterr().err
    assert main(["log"]) == 2
    assert "[unknown-session]" in capsys.readouterr().err


@pytest.mark.promise("K11")
def test_both_spellings_of_every_shared_flag_say_the_same(calls: list[Invocation], tmp_path: Path):
    kebab = [
        *("-p", "hi", "--permission-mode", "acceptEdits", "--allowed-tools", "Read,Bash(git log *)", "--verbose"),
        *("--disallowed-tools", "Write", "--max-turns", "3", "--max-budget-usd", "1.5", "--max-tokens", "1000"),
        *("--append-system-prompt", "x", "--session-id", SESSION, "--output-format", "stream-json"),
        *("--add-dir", str(tmp_path), "--input-format", "text", "--timeout", "2m", "--report", "r.md", "--strict"),
    ]
    camel = [re.sub(r"-([a-z])", lambda m: m[1].upper(), a[2:]) if a.startswith("--") else "" for a in kebab]
    spelt = [f"--{c}" if c else a for a, c in zip(kebab, camel, strict=True)]
    assert "--allowedTools" in spelt
    assert "--maxBudgetUsd" in spelt
    assert main(kebab) == main(spelt) == 0
    assert calls[0] == calls[1]
    options = calls[0].options
    assert options.allowed_tools == ("Read", "Bash(git log *)")
    assert (options.budget.usd, options.budget.tokens, options.budget.turns, options.budget.minutes) == (
        1.5,
        1000,
        3,
        2,
    )
    assert (calls[0].report, calls[0].strict, options.permission_mode) == (Path.cwd() / "r.md", True, "acceptEdits")


def test_rules_behind_one_flag_are_its_own_up_to_the_next_thing_that_is_none():
    args = ["--allowedTools", "Read", "Bash(git log:*)", "mcp__x__y", "--model", "Opus", "Fix it"]
    spread = ["--allowedTools", "Read", "--allowedTools", "Bash(git log:*)", "--allowedTools", "mcp__x__y", *args[4:]]
    assert spread_rules(args) == spread
    assert spread_rules(["--", "--allowedTools", "A", "B"]) == ["--", "--allowedTools", "A", "B"]


def test_paths_begin_at_the_directory_of_C(calls: list[Invocation], tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "task.md").write_text("from the file\n")
    assert main(["-C", str(tmp_path), "-p", "@task.md", "--add-dir", "sub", "--settings", "s.json"]) == 0
    options = calls[0].options
    assert (options.cwd, options.add_dirs, options.settings_file) == (
        tmp_path,
        (tmp_path / "sub",),
        tmp_path / "s.json",
    )
    assert calls[0].blocks[0]["text"] == "from the file"


def test_bypassing_is_a_mode_with_a_long_name(calls: list[Invocation], capsys: pytest.CaptureFixture[str]):
    assert main(["-p", "x", "--dangerously-skip-permissions"]) == 0
    assert calls[0].options.permission_mode == "bypassPermissions"
    assert main(["-p", "x", "--dangerously-skip-permissions", "--permission-mode", "default"]) == 2
    assert "contradict" in capsys.readouterr().err


def test_flags_of_the_place_are_understood_before_and_behind_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_session(tmp_path)
    outputs = []
    for args in (["-C", str(tmp_path), "sessions", "--json"], ["sessions", "--json", "-C", str(tmp_path)]):
        assert main(args) == 0
        outputs.append(json.loads(capsys.readouterr().out))
    assert outputs[0] == outputs[1]
    assert outputs[0][0]["id"] == SESSION
    assert main(["--home", str(tmp_path / "empty"), "-C", str(tmp_path), "sessions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--modle", "x"], "--model"),
        (["-p", "x", "--max-budget-usd", "0"], "above zero"),
        (["-p", "x", "--max-budget-usd", "nan"], "above zero"),
        (["-p", "x", "--timeout", "soon"], "90, 90s, 10m or 1h"),
        (["-p", "x", "--timeout", "0"], "not a time span"),
        (["-p", "x", "--max-turns", "0"], "--max-turns"),
        (["-p", "x", "--max-turns", "many"], "'many' is not a whole number"),
        (["-p", "x", "--max-tokens", "0"], "0 is less than 1"),
        (["-p", "x", "--agents", "{"], "it is no JSON"),
        (["-p", "x", "--no-such-flag", "tmux"], "unknown option '--no-such-flag'\n"),
        (["-p", "x", "--session-id", "17"], "not a session id"),
        (["-p", "x", "-c", "--session-id", SESSION], "contradict"),
        (["-p", "x", "-c", "-r", "7f"], "contradict"),
        (["-p", "x", "--add-dir", "/no/such"], "/no/such"),
        (["-C", "/no/such", "-p", "x"], "/no/such"),
        (["-p", "@nothing.md"], "no such file"),
        (["-p", ""], "the prompt is empty"),
        (["-p"], "the prompt is empty"),
        (["-p", "x", "--input-format", "stream-json"], "stdin alone"),
        (["lgo", "my-team"], "teamwright log my-team"),
        (["fix", "the", "bug"], 'in quotes\n  do          teamwright "fix the bug"\n'),
        (["auth", "login"], "there is no login"),
        (["install", "stable"], "does not update itself"),
        (["remote-control"], "teamwright sessions --all"),
        (["plugin", "install", "x"], "teamwright plugin add --help"),
        (["mcp", "delete", "x"], "teamwright mcp remove --help"),
        (["mcp", "ad", "x"], "teamwright mcp add --help"),
        (["mcp", "serve"], "no such command 'serve'\n  do          teamwright mcp --help\n"),
        (["-p", "hi", "--agents", "nope.json"], "nope.json cannot be read: No such file or directory"),
        (["--strict", "log", "x"], "--strict is before log"),
        (["log", "--folow"], "unknown option '--folow'. Did you mean '--follow'?"),
        (["inbox", "tess"], "there is no team 'tess'"),
        (["trust", "--yes", "--remove"], "exclude each other"),
        (["log", "--since", "when"], "no session"),
    ],
)
def test_a_command_line_that_is_not_understood_is_refused_in_one_form(
    args: list[str], words: str, calls: list[Invocation], capsys: pytest.CaptureFixture[str]
):
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("teamwright: ")
    assert words in err
    assert re.search(r"^  \[[a-z-]+\]", err, re.MULTILINE)
    assert len(err.splitlines()) <= 12
    assert "Traceback" not in err
    assert calls == []


@pytest.mark.parametrize("args", [["--modle", "x"], ["-p", "x", "--modle", "y"], ["doctor", "--modle", "x"]])
def test_a_misspelt_option_is_named_with_the_one_that_is_meant(args: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(args) == 2
    assert capsys.readouterr().err.startswith("teamwright: unknown option '--modle'. Did you mean '--model'?\n")


@pytest.mark.parametrize(
    "args",
    [
        ["--dangerously-skip-permission", "x"],
        ["stop", "--nwo", "shop"],
        ["teams", "rm", "--forse", "shop"],
        ["trust", "--yess"],
        ["--trsut", "x"],
    ],
)
def test_an_option_that_skips_a_question_or_ends_work_is_never_suggested(
    args: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main(args) == 2
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("teamwright: unknown option '--") and "Did you mean" not in first


def all_flags(command: click.Command) -> set[str]:
    below = command.commands.values() if isinstance(command, click.Group) and command is not root else ()
    return {flag for param in command.params for flag in param.opts}.union(*map(all_flags, below))


def test_every_option_that_is_never_suggested_exists():
    commands = [root, *(root.get_command(click.Context(root), name) for name in COMMANDS)]
    known = {flag for command in commands if command is not None for flag in all_flags(command)}
    assert known >= RISKY_FLAGS


@pytest.mark.promise("K8")
@pytest.mark.slow
def test_off_a_terminal_without_a_pipe_the_error_says_how_to_be_headless():
    done = run("do this")
    assert done.returncode == 2
    assert 'teamwright -p "do this"' in done.stderr
    assert "[usage]" in done.stderr


@pytest.mark.promise("K12")
def test_other_platforms_are_refused_with_their_name_and_a_way():
    for kind, release in (("linux", "6.8.0"), ("darwin", "24.1"), ("linux", "5.15.153.1-microsoft-standard-WSL2")):
        require_platform(kind, release)
    for kind, release in (("win32", "10"), ("freebsd14", "14"), ("linux", "4.4.0-19041-Microsoft")):
        with pytest.raises(CannotStart) as caught:
            require_platform(kind, release)
        assert caught.value.exit_code == 3
        assert "wsl" in caught.value.render()
    assert platform_name("linux", "5.15.153.1-microsoft-standard-WSL2").startswith("WSL 2")


@pytest.mark.promise("K12")
def test_no_command_runs_on_another_platform(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "platform", "win32")
    for args in (["teams"], ["-p", "x"], ["x"]):
        assert main(args) == 3
        assert "[platform]" in capsys.readouterr().err


# ── prompts through pipes ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch):
    """A pipe as stdin; the end to write to."""
    reading, writing = os.pipe()
    with open(reading) as source, open(writing, "w") as sink:
        monkeypatch.setattr(sys, "stdin", source)
        yield sink


@pytest.mark.promise("K8")
def test_a_pipe_makes_a_run_headless_and_what_it_says_comes_first(pipe, calls: list[Invocation]):
    pipe.write("the diff\n")
    pipe.close()
    assert main(["review this"]) == 0
    assert calls[0].blocks == ({"type": "text", "text": "the diff\n\nreview this"},)


def test_a_pipe_that_nobody_closes_does_not_hold_up_a_typed_prompt(
    pipe, calls: list[Invocation], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("teamwright.ui.invocation.STDIN_WAIT_S", 0.05)
    assert main(["-p", "go on"]) == 0
    assert calls[0].blocks == ({"type": "text", "text": "go on"},)
    assert "left out" in capsys.readouterr().err


def test_a_pipe_with_too_much_is_refused(pipe, calls: list[Invocation], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("teamwright.ui.invocation.MAX_STDIN", 10)
    pipe.write("x" * 11)
    pipe.close()
    assert main(["-p"]) == 2
    assert calls == []


# ── endings ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mistake_of_ours_is_one_error_and_a_private_file_without_secrets_or_prompts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MY_SERVICE_TOKEN", "very-secret-token-9876")

    def broken(_: Invocation) -> int:
        raise KeyError(f"very-secret-token-9876 and {LIKE_A_KEY}")

    monkeypatch.setattr(headless_face, "run_headless", broken)
    assert main(["-p", "my private prompt", "--model=sonnet"]) == 70
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert "[bug]" in shown
    path = Path(re.search(r"crash file  (\S+)", shown)[1])
    kept = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.parent == resolve_home(None).debug
    assert "KeyError" in kept
    assert "--model" in kept
    for secret in ("very-secret-token-9876", LIKE_A_KEY, "my private prompt"):
        assert secret not in kept + shown
    assert "…9876" in kept
    assert main(["-p", "x", "--debug"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_a_mistake_is_still_told_when_the_home_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(headless_face, "run_headless", lambda _: 1 / 0)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    assert main(["--home", str(tmp_path / "file" / "home"), "-p", "x"]) == 70
    assert "could not be written" in capsys.readouterr().err


def test_secrets_are_masked_by_name_and_by_look():
    env = {"API_KEY": "abcdefghijklmnop", "PATH": "/usr/bin:/usr/bin", "SHORT_KEY": "abc"}
    text = mask_secrets("abcdefghijklmnop /usr/bin:/usr/bin abc ghp_0123456789abcdef Bearer qwertyuiop", env)
    assert text == "…mnop /usr/bin:/usr/bin abc …cdef Bearer …"


def test_an_interrupt_before_anything_began_is_130(monkeypatch: pytest.MonkeyPatch):
    def interrupted(_: Invocation) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(headless_face, "run_headless", interrupted)
    assert main(["-p", "x"]) == 130


@pytest.mark.parametrize("code", [0, 1, 4, 5, 143])
def test_the_exit_code_of_a_run_is_the_exit_code(code: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(headless_face, "run_headless", lambda _: code)
    assert main(["-p", "x"]) == code


def write_log(cwd: Path, events: int) -> None:
    log = EventLog(write_session(cwd).with_suffix("") / "events.jsonl")
    for number in range(events):
        log.emit(MemberChanged(member="tess", state="idle", detail=f"number {number} \x1b[31mred"))
    log.close()


@pytest.mark.promise("K11")
def test_a_reader_that_goes_away_ends_the_program_in_silence(tmp_path: Path):
    write_log(tmp_path, 5000)
    with subprocess.Popen(
        [*PROGRAM, "-C", str(tmp_path), "log"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout and child.stderr
        assert b"number 0" in child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=WAIT_S) == 0


@pytest.mark.promise("K11")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_said_and_is_no_bug(tmp_path: Path):
    write_log(tmp_path, 5)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "-C", str(tmp_path), "log"], stdout=full, stderr=subprocess.PIPE, timeout=WAIT_S
        )
    assert done.returncode == 1
    assert b"[disk-full]" in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.promise("K11")
def test_no_control_character_of_a_file_reaches_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_log(tmp_path, 1)
    write_session(tmp_path, "8f3a0000-0000-4000-8000-000000000001", "\x1b]0;owned\x07 hello\u202egnp.exe")
    assert main(["-C", str(tmp_path), "log", "7f3a"]) == main(["-C", str(tmp_path), "sessions"]) == 0
    shown = capsys.readouterr().out
    assert "number 0" in shown
    assert "hello" in shown
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert max(map(len, shown.splitlines())) <= 80


def test_a_terminal_of_another_encoding_gets_question_marks_and_no_error(tmp_path: Path):
    write_session(tmp_path, prompt="zähle die Zeilen …")
    done = run("-C", str(tmp_path), "sessions", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "z?hle" in done.stdout


# ── going on ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("K8")
def test_the_newest_session_or_the_named_one_goes_on_in_its_own_directory(tmp_path: Path, calls: list[Invocation]):
    here, there = tmp_path / "here", tmp_path / "there"
    ids = [f"{n}f3a0000-0000-4000-8000-000000000001" for n in range(3)]
    for id, cwd, when in zip(ids, (here, here, there), (10, 20, 30), strict=True):
        cwd.mkdir(exist_ok=True)
        os.utime(write_session(cwd, id), (when, when))
    for args in (["-c", "-p", "x"], ["-r", "0f3", "-p", "x"], ["resume", "2f3", "-p", "x"], ["-r", "2f3", "-p", "x"]):
        assert main(["-C", str(here), *args]) == 0
    assert [(c.options.resume, c.options.cwd) for c in calls] == [
        (ids[1], here),
        (ids[0], here),
        (ids[2], there),
        (ids[2], there),
    ]


def test_without_a_terminal_the_question_which_session_lists_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_session(tmp_path, prompt="count the lines")
    for args in (["-r", "-p", "x"], ["resume", "-p"]):
        assert main(["-C", str(tmp_path), *args]) == 2
        err = capsys.readouterr().err
        assert "7f3a0000" in err
        assert "count the lines" in err


def test_a_session_whose_directory_is_gone_is_not_started_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_session(tmp_path / "gone")
    assert main(["-C", str(tmp_path), "resume", "7f3a", "-p", "x"]) == 2
    assert "is gone" in capsys.readouterr().err


@pytest.mark.promise("K8", "K3")
@pytest.mark.slow
def test_on_a_terminal_a_session_is_picked_from_a_list(tmp_path: Path):
    write_session(tmp_path, prompt="the one and only")
    child = pexpect.spawn(
        sys.executable, ["-m", "teamwright", "-C", str(tmp_path), "-r"], timeout=WAIT_S, encoding="utf-8"
    )
    child.expect("the one and only")
    child.expect("Which one")
    child.sendline("7")
    child.expect("7 is not in the range")
    child.sendline("1")
    child.expect(r"\[[a-z-]+\]")
    assert child.after == "[unknown-model]", "the session's own model, which no provider has"
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 3


def test_ctrl_c_at_a_question_is_130(tmp_path: Path):
    write_session(tmp_path)
    child = pexpect.spawn(
        sys.executable, ["-m", "teamwright", "-C", str(tmp_path), "-r"], timeout=WAIT_S, encoding="utf-8"
    )
    child.expect("Which one")
    child.kill(signal.SIGINT)
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 130


def test_flags_that_need_p_say_so_on_a_terminal(tmp_path: Path):
    child = pexpect.spawn(
        sys.executable, ["-m", "teamwright", "-C", str(tmp_path), "--strict", "x"], timeout=WAIT_S, encoding="utf-8"
    )
    child.expect(r"--strict needs -p")
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 2


def test_the_root_knows_no_command_but_those_of_the_table():
    ctx = click.Context(root)
    assert root.get_command(ctx, "statistics") is None
    assert root.list_commands(ctx) == list(COMMANDS)
