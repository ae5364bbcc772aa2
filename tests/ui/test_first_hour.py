"""What somebody new types wrong in the first hour, and what the surroundings do to the program: the real process."""

import subprocess

import pytest

from tests.support.waits import WAIT_S
from tests.ui.program import COMMAND, Program, error_of

SCRIPT = '[[agent.lead.turn]]\nsay = "Hello from the script."\n'


@pytest.fixture
def program(tmp_path):
    cwd = tmp_path / "work"
    cwd.mkdir()
    (tmp_path / "hello.toml").write_text(SCRIPT)
    return Program(cwd, tmp_path / "home")


@pytest.fixture
def scripted(tmp_path):
    return ("--model", f"scripted:{tmp_path / 'hello.toml'}")


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("args", "env", "code", "slug", "words"),
    [
        (("--permission-mode", "acceptEdit"), {}, 2, "usage", "did you mean acceptEdits?"),
        (("--allowedTools", "Bahs(ls)"), {}, 2, "usage", "did you mean Bash?"),
        (("--disallowedTools", "Wriet"), {}, 2, "usage", "did you mean Write?"),
        (("--model", "sonet"), {"ANTHROPIC_API_KEY": ""}, 3, "unknown-model", "did you mean sonnet?"),
        (("--model", "sonnet"), {"ANTHROPIC_BASE_URL": "nonsense"}, 3, "bad-settings", "ANTHROPIC_BASE_URL"),
        (("--model", "sonnet"), {"ANTHROPIC_BASE_URL": "http://"}, 3, "bad-settings", "is not an address"),
        (("--model", "sonnet"), {"ANTHROPIC_BASE_URL": "http://h:port"}, 3, "bad-settings", "is not an address"),
        (("--home", "a-file"), {}, 3, "read-only-home", "a file is in its place"),
        (("--home", "a-file/below"), {}, 3, "read-only-home", "a file is in its place"),
    ],
)
def test_what_cannot_start_says_why_and_what_to_do(program, scripted, args, env, code, slug, words):
    (program.cwd / "a-file").write_text("")
    given = args if "--model" in args else (*args, *scripted)
    program.env |= env
    done = program.run("-p", "hi", *given)
    found, lines = error_of(done)
    assert (done.returncode, found, done.stdout) == (code, slug, "")
    assert words in "\n".join(lines)


@pytest.mark.parametrize("mode", ["acceptEdits", "accept-edits"])
@pytest.mark.slow
def test_a_mode_is_understood_in_every_spelling(program, scripted, mode):
    done = program.run("-p", "hi", "--permission-mode", mode, *scripted)
    assert (done.returncode, done.stdout) == (0, "Hello from the script.\n")


@pytest.mark.slow
def test_a_misspelt_command_off_a_terminal_names_the_nearest(program):
    done = program.run("modles")
    assert done.returncode == 2
    assert "models" in "\n".join(error_of(done)[1])


def test_doctor_names_a_home_that_is_a_file_once(program):
    (program.cwd / "a-file").write_text("")
    done = program.run("--home", "a-file", "doctor")
    assert "Errno" not in done.stdout
    assert (done.returncode, done.stdout.count("✗ home")) == (1, 1)
    assert "✗ file" not in done.stdout


def closed(program: Program, *numbers: int, args: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run the program as a shell does with `>&-`."""
    shut = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in numbers)
    command = ["sh", "-c", f'exec "$@" {shut}', "sh", *COMMAND, *args]
    return subprocess.run(
        command, cwd=program.cwd, env=program.environment, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def test_with_stdout_closed_nothing_is_started(program, scripted):
    done = closed(program, 1, args=("-p", "hi", *scripted))
    assert (done.returncode, error_of(done)[0]) == (2, "usage")
    assert not program.home.exists()


@pytest.mark.slow
def test_with_stderr_or_stdin_closed_the_answer_comes_all_the_same(program, scripted):
    for number in (0, 2):
        done = closed(program, number, args=("-p", "hi", *scripted))
        assert (done.returncode, done.stdout) == (0, "Hello from the script.\n")


@pytest.mark.slow
def test_a_prompt_of_megabytes_makes_no_list_slow(program, scripted):
    assert program.run("-p", *scripted, stdin="a" * 3_000_000).returncode == 0
    done = program.run("sessions")  # within its minute: a cut of one step a character took ten
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.slow
def test_bytes_that_are_no_text_are_a_prompt_and_break_nothing(program, scripted):
    command = [*COMMAND, "-p", *scripted]
    raw = bytes(range(1, 256)) * 12
    done = subprocess.run(
        command, cwd=program.cwd, env=program.environment, input=raw, capture_output=True, timeout=WAIT_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"Hello from the script.\n")
    assert program.run("sessions").returncode == 0


@pytest.mark.slow
def test_two_processes_on_one_session_the_second_is_refused_and_the_first_ends_well(program, tmp_path, scripted):
    slow = tmp_path / "slow.toml"
    slow.write_text('[script]\npace_ms = 60000\n[[agent.lead.turn]]\nsay = "late"\n')
    session = "11111111-1111-4111-8111-111111111111"
    slowly = ("--output-format", "stream-json", "--model", f"scripted:{slow}")
    first = program.start("-p", "hi", "--session-id", session, *slowly)
    try:
        assert first.stdout is not None and "init" in first.stdout.readline()
        second = program.run("-r", session, "-p", "again", *scripted)
        assert (second.returncode, error_of(second)[0]) == (3, "session-busy")
    finally:
        first.terminate()
        first.communicate(timeout=WAIT_S)
    assert first.returncode == 143


@pytest.mark.slow
def test_what_was_refused_is_told_under_the_leads_own_name(program, tmp_path):
    report, script = tmp_path / "report.md", tmp_path / "tool.toml"
    call = '[[agent.lead.turn]]\n[[agent.lead.turn.call]]\ntool = "Bash"\ninput = { command = "make x" }\n'
    script.write_text(call + '[[agent.lead.turn]]\nsay = "Done."\n')
    done = program.run("-p", "hi", "--strict", "--report", str(report), "--model", f"scripted:{script}")
    assert done.returncode == 5
    assert "refused Bash of lead (mode default)" in done.stderr
    assert "denied requests: 1" in done.stderr
    assert "team-lead" not in done.stderr + report.read_text()
