"""`doctor --bundle`: what is in it, and what never is: searched for planted secrets and every word that was said."""

import json
import os
import stat
import zipfile
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.ui.program import KEY, Program, error_of

pytestmark = pytest.mark.promise("K13")

SECRETS = {
    "of the environment": ("DEPLOY_TOKEN", "plain-words-but-secret-1"),
    "of a setting": ("", "correct-horse-battery"),
    "of a header": ("", "header-secret-xyzzy"),
    "of a hook": ("", "hook-secret-plugh"),
    "in an address": ("", "user:pass-in-url"),
    "that looks like one": ("", "ghp_" + "A1b2C3d4" * 4),
}
WORDS = [
    "prompt-word-zebra",
    "answer-word-okapi",
    "task-word-gnu",
    "mail-word-tapir",
    "output-word-lemur",
    "crash-word-yak",
]
SETTINGS = {
    "model": "sonnet",
    "stall_s": 30,
    "teams": True,
    "env": {"MY_THING": SECRETS["of a setting"][1]},
    "permissions": {"deny": [f"Bash(curl {SECRETS['that looks like one'][1]} *)"]},
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"true {SECRETS['of a hook'][1]}"}]}]},
    "mcpServers": {
        "far": {"type": "http", "url": "https://x.invalid", "headers": {"X-A": SECRETS["of a header"][1]}},
        "near": {"command": "nothing-here", "args": [SECRETS["of a setting"][1]]},
    },
    "providers": {"mine": {"base_url": f"https://{SECRETS['in an address'][1]}@127.0.0.1/v1"}},
    "task_check": f"curl {SECRETS['of a header'][1]}",
    "unheard_of": WORDS[0],
}


def worked(tmp_path: Path, repo: Path) -> Program:
    """A program with settings full of secrets, a session in which every word was said, and a crash file."""
    turns = [
        Answer(WORDS[1], tools=[("Bash", {"command": f"echo {WORDS[4]}", "description": "say it"})]),
        Answer("", tools=[("TaskCreate", {"subject": WORDS[2], "description": WORDS[2]})]),
        Answer(
            "", tools=[("Agent", {"name": "ada", "description": "x", "prompt": WORDS[3], "run_in_background": True})]
        ),
        Answer(WORDS[1]),
    ]
    name, secret = SECRETS["of the environment"]
    program = Program(repo, tmp_path / "home", env={name: secret})
    quiet = {key: value for key, value in SETTINGS.items() if key in ("env", "permissions", "stall_s")}
    with LoopbackModel.in_thread(turns) as server:
        program.url = server.url
        program.settings(**quiet)
        program.run("-p", WORDS[0], "--permission-mode", "bypassPermissions")
    program.settings(**SETTINGS)
    (program.home / "debug").mkdir(exist_ok=True)
    trace = (
        "teamwright 0.1.0\npython 3.11 at /usr/bin/python\nplatform Linux\nflags -p\n\n"
        "Traceback (most recent call last):\n"
        f'  File "/x/teamwright/app/y.py", line 7, in run\n    call("{WORDS[5]}")\n'
        f"ValueError: {WORDS[5]} {KEY}\nand a second line of {WORDS[5]}\n"
    )
    (program.home / "debug" / "crash-20260101-000000-1.txt").write_text(trace)
    return program


def texts(file: Path) -> dict[str, str]:
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.slow
def test_a_bundle_holds_what_helps_and_not_one_word_or_secret(tmp_path, repo):
    program = worked(tmp_path, repo)
    done = program.run("doctor", "--bundle", "report.zip")
    assert (done.returncode, done.stderr) == (0, "")
    found = texts(repo / "report.zip")
    assert set(found) == {
        *("README.txt", "versions.json", "doctor.json", "settings.json", "files.json", "events.jsonl"),
        "crashes/crash-20260101-000000-1.txt",
    }
    whole = "\n".join(found.values()) + done.stdout
    everything = b"".join(path.read_bytes() for path in program.home.rglob("*") if path.is_file()).decode(
        errors="replace"
    )
    for word in [*WORDS[:5], KEY, *(secret for _, secret in SECRETS.values())]:
        assert word not in whole
        assert word in everything or word in (KEY, SECRETS["of the environment"][1]), "it was really there"
    assert WORDS[5] not in whole
    assert str(repo) not in found["files.json"] and repo.name not in found["files.json"]


@pytest.mark.slow
def test_what_is_in_it_tells_what_happened(tmp_path, repo):
    program = worked(tmp_path, repo)
    program.run("doctor", "--bundle", "report.zip")
    found = texts(repo / "report.zip")
    settings = json.loads(found["settings.json"])["the user's"]
    assert (settings["model"], settings["stall_s"], settings["teams"]) == ("sonnet", 30, True)
    assert settings["permissions.deny"] == ["Bash(…)"]
    assert "left out" in settings["task_check"]
    events = [json.loads(line) for line in found["events.jsonl"].splitlines()]
    assert {"tool_called", "model_call_ended", "task_changed", "run_ended"} <= {event["type"] for event in events}
    called = next(event for event in events if event["type"] == "tool_called" and event["tool"] == "Bash")
    assert (called["outcome"], called["input"]) == ("done", "2 entries, left out")
    assert "characters left out" in called["output"]
    assert 'File "/x/teamwright/app/y.py", line 7, in run' in found["crashes/crash-20260101-000000-1.txt"]
    assert "ValueError: (" in found["crashes/crash-20260101-000000-1.txt"]
    files = json.loads(found["files.json"])
    assert any(row["file"].endswith("/events.jsonl") and row["bytes"] > 0 for row in files)
    assert {row["section"] for row in json.loads(found["doctor.json"])} >= {"machine", "model", "settings"}


@pytest.mark.slow
def test_only_its_owner_may_read_it_and_the_list_says_what_is_in_it_and_what_is_not(tmp_path, repo):
    program = Program(repo, tmp_path / "home", before=["sh", "-c", 'umask 0; exec "$@"', "sh"])
    done = program.run("doctor", "--bundle")
    [file] = (tmp_path / "home" / "debug").glob("report-*.zip")
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(file.parent).st_mode) == 0o700
    assert str(file) in done.stdout
    assert "Left out: prompts, answers" in done.stdout
    assert all(name in done.stdout for name in texts(file) if name != "README.txt")
    assert list(repo.glob("*.zip")) == [], "nothing is written into the repository unless it is named"


@pytest.mark.slow
def test_a_file_that_is_there_is_never_written_over_nor_a_link_followed(tmp_path, repo):
    program = Program(repo, tmp_path / "home")
    (repo / "kept.zip").write_text("mine")
    (repo / "link.zip").symlink_to(tmp_path / "elsewhere")
    for name in ("kept.zip", "link.zip"):
        done = program.run("doctor", "--bundle", name)
        assert (done.returncode, error_of(done)[0]) == (2, "usage")
        assert "nothing was written" in done.stderr
    assert (repo / "kept.zip").read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()
    done = program.run("doctor", "--bundle", "no/such/place.zip")
    assert (done.returncode, error_of(done)[0]) == (1, "io-failed")


def test_it_is_made_where_everything_else_is_broken(tmp_path, repo):
    program = Program(repo, tmp_path / "home")
    log = program.home / "projects" / "x" / "s" / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(b'\xff\xfe not json\n[1]\n{"n": 1, "type": "notice", "text": "words"}\n{"half')
    (program.home / "settings.json").write_text('{"model": ')
    (program.home / "debug").mkdir()
    os.mkfifo(program.home / "debug" / "crash-1.txt")
    done = program.run("doctor", "--bundle", "report.zip", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    found = texts(repo / "report.zip")
    assert told["file"] == str(repo / "report.zip")
    assert {part["name"] for part in told["parts"]} | {"README.txt"} == set(found)
    assert json.loads(found["settings.json"])["the user's"] == "cannot be read (bad-settings)"
    assert '"type": "unreadable"' in found["events.jsonl"]
    assert "(5 characters left out)" in found["events.jsonl"]


@pytest.mark.slow
def test_from_a_directory_below_the_settings_are_those_that_a_run_would_read_there(tmp_path, repo):
    program = Program(repo / "below", tmp_path / "home")
    for place in (repo / "below", repo / ".teamwright"):
        place.mkdir()
    (repo / ".teamwright" / "settings.json").write_text('{"stall_s": 31}')
    assert program.run("doctor", "--bundle", str(repo / "report.zip")).returncode == 0
    assert json.loads(texts(repo / "report.zip")["settings.json"])["the repository's"] == {"stall_s": 31}


def test_a_bundle_and_a_live_request_are_not_asked_for_at_once(tmp_path, repo):
    done = Program(repo, tmp_path / "home").run("doctor", "--bundle", "--live")
    assert (done.returncode, error_of(done)[0]) == (2, "usage")
