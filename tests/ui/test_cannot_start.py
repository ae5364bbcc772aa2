"""What a new user meets when something is missing: an error in one form, its exit code, and nothing begun."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, CutPrompt, Status
from tests.support.programs import require
from tests.support.waits import WAIT_S
from tests.ui.conftest import GIT
from tests.ui.program import COMMAND, KEY, Program, error_of, told_results

LATER = Answer(tools=[("Glob", {"pattern": "*.md"})])


def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@pytest.mark.promise("K3")
@pytest.mark.slow
def test_without_a_key_the_error_says_what_was_looked_at_and_what_to_type(tmp_path, repo):
    program = Program(repo, tmp_path / "home", env={"ANTHROPIC_API_KEY": ""})
    done = program.run("-p", "Hello")
    slug, lines = error_of(done)
    assert (done.returncode, slug, done.stdout) == (3, "no-model", "")
    text = "\n".join(lines)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENROUTER_API_KEY"):
        assert name in text
    assert "export ANTHROPIC_API_KEY=" in text
    assert "teamwright demo" in text
    assert not list((tmp_path / "home").rglob("*.jsonl")), "no session was begun"


@pytest.mark.promise("K3")
def test_another_vendors_key_alone_is_answered_with_the_ways_that_work(tmp_path, repo):
    program = Program(repo, tmp_path / "home", env={"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "sk-other-1234567890"})
    done = program.run("-p", "Hello")
    assert (done.returncode, error_of(done)[0]) == (3, "no-model")
    assert "OPENAI_API_KEY: it works when a model is named" in done.stderr
    assert "teamwright --model openai/gpt-" in done.stderr
    assert "1234567890" not in done.stderr


@pytest.mark.slow_after(1)
@pytest.mark.promise("K2", "K3")
@pytest.mark.parametrize("name", ["nosuch/model", "anthropic/", "ollama/"])
def test_a_model_of_no_provider_is_refused_with_the_providers_that_there_are(tmp_path, repo, name):
    done = Program(repo, tmp_path / "home").run("-p", "Hello", "--model", name)
    assert (done.returncode, error_of(done)[0]) == (3, "unknown-model")
    assert "anthropic, openrouter, ollama" in done.stderr


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("status", "slug", "word"),
    [(401, "wrong-key", "…k8Vn"), (403, "no-access", "it said"), (404, "unknown-model", "claude-")],
)
def test_what_the_service_refuses_before_it_ever_answered_means_cannot_start(tmp_path, repo, status, slug, word):
    with LoopbackModel.in_thread([Status(status, f"no: {KEY}")]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "Hello")
    found, lines = error_of(done)
    assert (done.returncode, found, done.stdout) == (3, slug, "")
    assert word in "\n".join(lines)
    assert len(server.bodies) == 1, "what cannot help is not tried again"


@pytest.mark.parametrize(("status", "slug"), [(401, "wrong-key"), (404, "unknown-model")])
@pytest.mark.slow_after(1)
def test_the_same_refusal_after_a_first_answer_is_a_failed_run(tmp_path, repo, status, slug):
    with LoopbackModel.in_thread([LATER, Status(status)]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "Hello", "--output-format", "json")
    found, lines = error_of(done)
    assert (done.returncode, found) == (1, "model-failed")
    assert any("teamwright resume " in line for line in lines)
    result = json.loads(done.stdout)
    assert (result["subtype"], result["is_error"], result["num_turns"]) == ("success", True, 1)
    assert (result["terminal_reason"], result["api_error_status"]) == ("api_error", status)
    assert result["team"]["error"]["slug"] == "model-failed"


@pytest.mark.slow
def test_a_service_that_cannot_be_reached_means_cannot_start(tmp_path, repo):
    done = Program(repo, tmp_path / "home", f"http://127.0.0.1:{closed_port()}").run("-p", "Hello")
    assert (done.returncode, error_of(done)[0], done.stdout) == (3, "no-network", "")
    assert "127.0.0.1" in done.stderr


@pytest.mark.slow
def test_a_name_that_no_server_has_means_cannot_start(tmp_path, repo):
    program = Program(repo, tmp_path / "home", "https://model.invalid", env={"HTTPS_PROXY": "", "https_proxy": ""})
    done = program.run("-p", "Hello")
    assert (done.returncode, error_of(done)[0]) == (3, "no-network")
    assert "model.invalid" in done.stderr


@pytest.mark.slow
def test_a_local_server_that_does_not_run_is_named_with_what_to_start(tmp_path, repo):
    program = Program(repo, tmp_path / "home", env={"OLLAMA_HOST": f"127.0.0.1:{closed_port()}"})
    done = program.run("-p", "Hello", "--model", "ollama/qwen3-coder")
    assert (done.returncode, error_of(done)[0]) == (3, "no-network")
    assert "start ollama" in done.stderr


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle_is_a_failed_run_that_can_go_on(tmp_path, repo):
    with LoopbackModel.in_thread([LATER, Status(500)]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(retries=1)
        done = program.run("-p", "Hello")
    assert (done.returncode, error_of(done)[0]) == (1, "model-failed")
    assert "teamwright resume " in done.stderr


@pytest.mark.promise("F58")
def test_a_server_that_cuts_the_prompt_is_caught_and_the_line_says_how_to_go_on(tmp_path, repo):
    (repo / "long.txt").write_text("all of this must be read by the model\n" * 200)
    turns = [CutPrompt(3_000, Answer(tools=[("Read", {"file_path": str(repo / "long.txt")})])), CutPrompt(3_000)]
    with LoopbackModel.in_thread(turns) as server:
        program = Program(repo, tmp_path / "home")
        program.settings(providers={"mine": {"base_url": server.url}})
        done = program.run("-p", "Hello", "--model", "mine/small")
    slug, lines = error_of(done)
    assert (done.returncode, slug, done.stdout) == (1, "window-too-small", "")
    assert "cut the prompt" in lines[0]
    assert "3,000 read" in lines[0]
    assert "teamwright resume " in "\n".join(lines)


@pytest.mark.promise("K4")
@pytest.mark.slow
def test_a_cap_on_money_needs_a_price(tmp_path, repo):
    with LoopbackModel.in_thread() as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run("-p", "Hello", "--model", "claude-of-tomorrow", "--max-budget-usd", "1")
        assert (done.returncode, error_of(done)[0]) == (3, "unknown-price")
        assert server.requests == []
        program.settings(prices={"anthropic/claude-of-tomorrow": {"usd_in": 1, "usd_out": 2}})
        done = program.run("-p", "Hello", "--model", "claude-of-tomorrow", "--max-budget-usd", "1")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

WRONG = {
    "no JSON": ("{\n  'model': 'x'\n}", "line 2"),
    "a list": ("[]", "line 1"),
    "a wrong type": ('{\n  "teams": "yes"\n}', "line 2, teams"),
    "a wrong count": ('{"limits": {"members": -1}}', "limits.members"),
    "a rule that is none": ('{"permissions": {"deny": ["Bash(("]}}', "permissions.deny"),
    "a mode that is none": ('{"permissions": {"defaultMode": "wild"}}', "permissions.defaultMode"),
    "a price that is none": ('{"prices": {"anthropic/x": {"usd_in": "free"}}}', "usd_in"),
    "a provider without an address": ('{"providers": {"mine": {}}}', "base_url"),
    "not UTF-8": (b"\xff\xfe{}", "byte 0"),
}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("content", WRONG)
def test_settings_that_cannot_be_understood_are_named_with_file_and_place(tmp_path, repo, content):
    written, place = WRONG[content]
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.json").write_bytes(written if isinstance(written, bytes) else written.encode())
    done = Program(repo, home).run("-p", "Hello")
    slug, lines = error_of(done)
    assert (done.returncode, slug, done.stdout) == (3, "bad-settings", "")
    text = "\n".join(lines)
    assert str(home / "settings.json") in text
    assert place in text


def test_a_settings_file_of_a_flag_that_is_not_there_is_an_error(tmp_path, repo):
    done = Program(repo, tmp_path / "home").run("-p", "Hello", "--settings", "nowhere.json")
    assert (done.returncode, error_of(done)[0]) == (3, "bad-settings")
    assert str(repo / "nowhere.json") in done.stderr


def test_a_settings_file_that_is_a_directory_is_an_error(tmp_path, repo):
    (tmp_path / "home" / "settings.json").mkdir(parents=True)
    done = Program(repo, tmp_path / "home").run("-p", "Hello")
    assert (done.returncode, error_of(done)[0]) == (3, "bad-settings")


def test_a_file_of_trust_that_is_damaged_is_never_taken_for_an_empty_one(tmp_path, repo):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "trust.json").write_text('{"version": 1, "reposi')
    done = Program(repo, tmp_path / "home").run("-p", "Hello")
    assert (done.returncode, error_of(done)[0]) == (3, "bad-settings")
    assert "trust.json" in done.stderr


# ── where state is kept ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["a file", "beneath a file", "beneath /proc"])
@pytest.mark.slow_after(1)
def test_a_home_that_cannot_be_made_means_cannot_start(tmp_path, repo, place):
    (tmp_path / "taken").write_text("a file of the user's")
    homes = {"a file": tmp_path / "taken", "beneath a file": tmp_path / "taken" / "x", "beneath /proc": Path("/proc/x")}
    done = Program(repo, homes[place]).run("-p", "Hello")
    slug, lines = error_of(done)
    assert (done.returncode, slug) == (3, "read-only-home")
    assert str(homes[place]) in lines[0]
    assert any("--home DIR" in line for line in lines)
    assert (tmp_path / "taken").read_text() == "a file of the user's"


UNREADABLE = """
import sys
from teamwright.ui.cli.main import main
for words in ("status", "requests", "sessions", "teams", "send a@t hi", "log t", "-p Hello", "resume t"):
    print("\\0", words, main(words.split()), file=sys.stderr)
"""


@pytest.mark.finding("T23", "D4")
@pytest.mark.parametrize("closed", [".", "teams", "a file"])
@pytest.mark.slow_after(1)
def test_a_home_that_cannot_be_read_is_one_sentence_with_the_path_and_what_to_type(tmp_path, repo, closed):
    home = tmp_path / "home"
    (home / "teams" / "t").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "below" if closed == "a file" else home / closed
    if closed != "a file":
        path.chmod(0)
    without_rights = [require("setpriv"), "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    program = Program(repo, path if closed == "a file" else home)
    try:
        done = subprocess.run(
            [*without_rights, sys.executable, "-c", UNREADABLE],
            cwd=repo, env=program.environment, capture_output=True, text=True, timeout=WAIT_S, check=True,
        )  # fmt: skip
        looked = subprocess.run(
            [*without_rights, *COMMAND, "doctor"],
            cwd=repo, env=program.environment, capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
    finally:
        if closed != "a file":
            path.chmod(0o700)
    *told, _ = done.stderr.split("\0")
    codes = [part.split("\n")[0] for part in done.stderr.split("\0")[1:]]
    assert len(codes) == 8 and all(code.endswith(" 3") for code in codes), codes
    for one in told:
        assert f"the home {program.home} cannot be read" in one and "[read-only-home]" in one, one
        assert ("chmod -R u+rwX" in one) is (closed != "a file") and "--home DIR" in one
    assert done.stdout == ""
    assert looked.returncode == 1 and f"✗ home       the home {program.home}" in looked.stdout.replace(
        "\n             ", " "
    )


def namespaces_work() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        ["unshare", "-rm", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, timeout=WAIT_S, check=False
    )
    return tried.returncode == 0


in_a_namespace = pytest.mark.skipif(not namespaces_work(), reason="no mount namespaces for this user")


def mounted(script: str) -> list[str]:
    """Start the program where these mounts are, which nobody else sees."""
    return ["unshare", "-rm", "sh", "-ec", script + '\nexec "$@"', "sh"]


@in_a_namespace
@pytest.mark.slow
def test_a_home_on_a_read_only_disk_means_cannot_start(tmp_path, repo):
    home = tmp_path / "home"
    home.mkdir()
    script = f"mount -t tmpfs none {home}; mkdir {home}/state; mount -o remount,ro {home}"
    done = Program(repo, home / "state", before=mounted(script)).run("-p", "Hello")
    assert (done.returncode, error_of(done)[0]) == (3, "read-only-home")
    assert "Read-only file system" in done.stderr


@in_a_namespace
@pytest.mark.parametrize("words", [("-p", "Hello"), ("status",), ("doctor",), ("resume", "-p")])
@pytest.mark.slow_after(1)
def test_a_user_without_a_home_is_told_so_in_words(repo, words):
    nobody = ["unshare", "-U", "--map-user=23456", "env", "-u", "HOME"]
    done = Program(repo, Path(), env={"TEAMWRIGHT_HOME": ""}, before=nobody).run(*words)
    slug, lines = error_of(done)
    assert (done.returncode, slug) == (3, "read-only-home"), done.stderr
    assert "HOME is not set, and user 23456 has no home" in lines[0]
    assert any("--home DIR" in line for line in lines)


@in_a_namespace
@pytest.mark.slow
def test_a_user_without_a_home_works_with_one_that_is_named(tmp_path, repo):
    nobody = ["unshare", "-U", "--map-user=23456", "env", "-u", "HOME"]
    script = [Answer(tools=[("Bash", {"command": "id -u"})]), "Fine."]
    with LoopbackModel.in_thread(script) as server:
        program = Program(repo, tmp_path / "home", server.url, before=nobody)
        done = program.run("-p", "Hello", "--allowed-tools", "Bash(id:*)")
        assert [result["text"] for result in told_results(server.bodies[-1])] == ["23456"]
    assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
    assert program.run("check").returncode == 0


@in_a_namespace
@pytest.mark.slow
def test_a_full_disk_at_the_start_is_a_failed_run(tmp_path, repo):
    home = tmp_path / "home"
    home.mkdir()
    script = f"mount -t tmpfs -o size=64k none {home}; head -c 65536 /dev/zero > {home}/ballast || :"
    with LoopbackModel.in_thread() as server:
        done = Program(repo, home / "state", server.url, before=mounted(script)).run("-p", "Hello")
    assert (done.returncode, error_of(done)[0], done.stdout) == (1, "disk-full", "")
    assert "No space left on device" in done.stderr
    assert server.requests == []


@in_a_namespace
@pytest.mark.slow
def test_a_disk_that_fills_up_in_the_middle_is_a_failed_run_and_what_was_written_loads(tmp_path, repo):
    home, kept = tmp_path / "home", tmp_path / "kept"
    home.mkdir()
    kept.mkdir()
    (repo / "long.txt").write_text("a line of some length, to be read by the model\n" * 1500)
    script = f"mount -t tmpfs -o size=64k none {home}"
    turns = [Answer(tools=[("Read", {"file_path": str(repo / "long.txt")})]), Answer("Done.")]
    with LoopbackModel.in_thread(turns) as server:
        before = ["unshare", "-rm", "sh", "-c", f'{script}; "$@"; code=$?; cp -r {home}/. {kept}; exit $code', "sh"]
        done = Program(repo, home / "state", server.url, before=before).run("-p", "Hello")
    slug, lines = error_of(done)
    assert (done.returncode, slug, done.stdout) == (1, "disk-full", "")
    assert any("disk" in line for line in lines)
    assert any("teamwright resume " in line for line in lines)
    with LoopbackModel.in_thread() as server:
        again = Program(repo, kept / "state", server.url).run("-c", "-p", "Go on")
    assert (again.returncode, again.stdout) == (0, "Hello.\n"), again.stderr


@pytest.mark.slow
def test_a_file_that_may_not_grow_any_further_is_a_failed_run(tmp_path, repo):
    (repo / "long.txt").write_text("a line of some length, to be read by the model\n" * 1500)
    turns = [Answer(tools=[("Read", {"file_path": str(repo / "long.txt")})]), Answer("Done.")]
    code = (
        "import resource, signal, sys, os; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000)); os.execv(sys.argv[1], sys.argv[1:])"
    )
    with LoopbackModel.in_thread(turns) as server:
        program = Program(repo, tmp_path / "home", server.url, before=[sys.executable, "-c", code])
        done = program.run("-p", "Hello")
    assert (done.returncode, error_of(done)[0]) == (1, "disk-full")
    assert program.transcript()[-1]["type"] == "assistant", "the half-written line was taken back"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.slow
def test_an_answer_that_nobody_can_store_is_a_failed_run(tmp_path, repo):
    with LoopbackModel.in_thread() as server, open("/dev/full", "w") as full:
        program = Program(repo, tmp_path / "home", server.url)
        done = subprocess.run(
            [*COMMAND, "-p", "Hello"],
            cwd=repo,
            env=program.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert done.returncode == 1
    assert "[disk-full]" in done.stderr
    assert "Traceback" not in done.stderr
    assert program.transcript()[-1]["message"]["content"][0]["text"] == "Hello.", "the answer is in the transcript"


# ── repositories ─────────────────────────────────────────────────────────────────────────────────────────────────


def outside_git(_: Path, place: Path) -> None:
    place.mkdir()


def without_a_commit(_: Path, place: Path) -> None:
    subprocess.run(["git", "init", "-q", str(place)], check=True)


def shallow(repo: Path, place: Path) -> None:
    (repo / "second.txt").write_text("more\n")
    subprocess.run([*GIT, "add", "second.txt"], cwd=repo, check=True)
    subprocess.run([*GIT, "commit", "-q", "-m", "more"], cwd=repo, check=True)
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{repo}", str(place)], check=True)


def detached(repo: Path, place: Path) -> None:
    subprocess.run(["git", "clone", "-q", str(repo), str(place)], check=True)
    subprocess.run(["git", "checkout", "-q", "--detach"], cwd=place, check=True)


def with_a_broken_git_directory(_: Path, place: Path) -> None:
    place.mkdir()
    (place / ".git").write_text("gitdir: /nowhere/at/all\n")


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("make", [outside_git, without_a_commit, shallow, detached, with_a_broken_git_directory])
def test_any_directory_will_do(tmp_path, repo, make):
    place = tmp_path / "place"
    make(repo, place)
    turns = [Answer(tools=[("Bash", {"command": "ls -a"}), ("Glob", {"pattern": "**/*"})]), Answer("Seen.")]
    with LoopbackModel.in_thread(turns) as server:
        done = Program(place, tmp_path / "home", server.url).run("-p", "Hello")
    assert (done.returncode, done.stdout) == (0, "Seen.\n"), done.stderr
    assert "warning" not in done.stderr.lower()


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("args", "stdin", "word"),
    [
        (("-p",), None, "the prompt is empty"),
        (("-p", "   "), None, "the prompt is empty"),
        (("-p", "@nowhere.md"), None, "there is no such file"),
        (("-p", "Hello", "--max-turns", "0"), None, "--max-turns"),
        (("-p", "Hello", "--max-budget-usd", "-1"), None, "--max-budget-usd"),
        (("-p", "Hello", "--timeout", "soon"), None, "soon"),
        (("-p", "Hello", "--no-such-flag"), None, "--no-such-flag"),
        (("-p", "Hello", "world"), None, "world"),
        (("-p", "Hello", "-C", "nowhere"), None, "nowhere"),
        (("-p", "Hello", "--add-dir", "nowhere"), None, "nowhere"),
        (("-p", "Hello", "--permission-mode", "wild"), None, "wild"),
        (("-p", "Hello", "--allowedTools", "Bash("), None, "Bash("),
        (("-p", "Hello", "--session-id", "../../etc"), None, "etc"),
        (("-p", "Hello", "-r", "ffffffff"), None, "ffffffff"),
        (("-c", "-p", "Hello"), None, "no session"),
        (("-c", "-r", "aa", "-p", "Hello"), None, "contradict"),
        (("--output-format", "json", "Hello"), None, "-p"),
        (("-p", "Hello", "--input-format", "stream-json"), "", "stdin"),
        (("-p", "--input-format", "stream-json"), "not json\n", "not a user message"),
        (("-p", "--input-format", "stream-json"), "", "no prompt"),
    ],
)
def test_a_call_that_is_not_understood_is_refused_and_nothing_is_sent(tmp_path, repo, args, stdin, word):
    with LoopbackModel.in_thread() as server:
        done = Program(repo, tmp_path / "home", server.url).run(*args, **({} if stdin is None else {"stdin": stdin}))
    _, lines = error_of(done)
    assert (done.returncode, done.stdout) == (2, "")
    assert word in "\n".join(lines)
    assert server.requests == []
