"""Refusals of the sandbox are in the result, are an event and a line, and a question offers the way outside."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from teamwright import SandboxRefused, Team
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import PermissionUpdate
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import RequestOpened
from teamwright.sandbox.policy import PolicyName, SandboxPolicy
from teamwright.sandbox.violations import find_refusal
from teamwright.testing import Call, ScriptedModel
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.request_dialog import parse_reply
from teamwright.ui.terminal.request_lines import prompt_lines
from tests.support.outside import writable_outside
from tests.support.programs import needs

pytestmark = pytest.mark.usefixtures("each_implementation")


async def run(tmp_path, *commands: str, on_request=None, **more) -> tuple[list[str], list[SandboxRefused]]:
    """Run a lead that calls Bash with each of these commands. Return the results, and the refusals among its events."""
    (tmp_path / "work").mkdir(exist_ok=True)
    model = ScriptedModel([*(Call("Bash", {"command": one}) for one in commands), "Done."])
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto"} | more
    seen: list[SandboxRefused] = []
    async with Team("crew", model=model, on_request=on_request, **options) as team:
        async for event in team.run("Go.").events():
            if isinstance(event, SandboxRefused):
                seen.append(event)
    return [model.request_text(at) for at in range(1, len(commands) + 1)], seen


BYPASS = {"permission_mode": "bypassPermissions"}


async def test_a_refused_write_is_in_the_result_and_is_an_event_with_what_would_allow_it(tmp_path):
    path = str(writable_outside())
    (tmp_path / "work").mkdir()
    (tmp_path / "work/make.sh").write_text(f"touch {path}\n")
    [text], [event] = await run(tmp_path, "sh make.sh", **BYPASS)
    assert not os.path.exists(path)
    assert f"[The sandbox (policy work) refused to write {path}." in text
    assert all(
        one in text for one in (f"--add-dir {os.path.dirname(path)}", "sandbox.write", "Unconfined(…)", "--sandbox off")
    )
    assert event.refused == (f"write {path}",) and event.call == "c1" and event.policy == "work"
    [line] = EventFormatter().lines(event)
    assert f"the sandbox refused to write {path}" in line and "sandbox.write" in line and "outside the sandbox" in line
    assert any("sandbox_refused" in log.read_text() for log in (tmp_path / "state").rglob("events.jsonl"))


async def test_a_refusal_in_the_home_is_shown_with_a_tilde(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    _, [event] = await run(tmp_path, "echo x >> ~/.zshrc", **BYPASS)
    assert event.refused == ("write ~/.zshrc",)
    assert not (home / ".zshrc").exists()


async def test_a_server_of_this_machine_that_a_command_cannot_reach_is_a_refusal(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"exec 3<>/dev/tcp/127.0.0.1/{port} || echo cannot connect to localhost:{port}: Connection refused"
        _, [event] = await run(tmp_path, line, **BYPASS)
    assert event.refused == (f"connect to localhost:{port}",)
    assert "sandbox.network" in event.allow


async def test_a_file_that_nobody_could_write_is_no_refusal_of_the_sandbox(tmp_path):
    _, seen = await run(tmp_path, "ls /nowhere; cat missing.txt; exit 1", **BYPASS)
    assert seen == []


async def test_the_answer_outside_the_sandbox_runs_the_command_without_it(tmp_path):
    outside = tmp_path / "outside.txt"
    (tmp_path / "work").mkdir()
    (tmp_path / "work/Makefile").write_text(f"deploy:\n\techo made >> {outside}\n")
    asked: list[RequestOpened] = []

    async def answer(request: RequestOpened) -> None:
        asked.append(request)
        reply = parse_reply(request, "u")
        await request.allow(updates=reply.updates)

    await run(tmp_path, "make deploy", "make deploy", on_request=answer)
    assert outside.read_text() == "made\nmade\n"
    [request] = asked
    shown = "\n".join(prompt_lines(request, EventFormatter()))
    assert "u  yes, outside the sandbox: Unconfined(make deploy), until this session ends" in shown


async def test_a_plain_yes_keeps_the_command_inside_the_sandbox(tmp_path):
    outside = tmp_path / "outside.txt"
    (tmp_path / "work").mkdir()
    (tmp_path / "work/Makefile").write_text(f"deploy:\n\techo made >> {outside}\n")
    await run(tmp_path, "make deploy", on_request=RequestOpened.allow)
    assert not outside.exists()


async def test_a_line_of_several_commands_is_not_offered_outside(tmp_path):
    asked: list[RequestOpened] = []

    async def deny(request: RequestOpened) -> None:
        asked.append(request)
        await request.deny()

    await run(tmp_path, "make deploy && rm -r x", on_request=deny)
    assert not [update for update in asked[0].suggestions if "Unconfined" in str(update)]


@pytest.mark.parametrize("rule", ["Unconfined(make deploy)", "Unconfined(*)"])
def test_only_a_person_grants_commands_outside_the_sandbox(rule):
    update = PermissionUpdate("addRules", rules=(rule,))
    with pytest.raises(UsageError):
        Policy().apply_update(update, "granted by a hook")
    if rule == "Unconfined(*)":
        with pytest.raises(UsageError):
            Policy().apply_update(update, by_user=True)
    else:
        Policy().apply_update(update, by_user=True)


def sign_commits(home: Path, work: Path) -> None:
    """Make a repository and a user whose git signs commits with a key in the home."""
    (home / ".ssh").mkdir(parents=True)
    key = home / ".ssh/signs"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (home / ".gitconfig").write_text(
        f"[user]\n\tname = T\n\temail = t@example.org\n\tsigningkey = {key}\n"
        "[gpg]\n\tformat = ssh\n[commit]\n\tgpgsign = true\n"
    )
    subprocess.run(["git", "init", "-q", work], check=True)


def subjects(work: Path) -> str:
    done = subprocess.run(["git", "log", "--format=%s"], cwd=work, check=False, capture_output=True, text=True)
    return done.stdout


@needs("ssh-keygen")
@pytest.mark.slow_after(1)
async def test_a_commit_that_cannot_be_signed_says_what_would_allow_the_signature(tmp_path, monkeypatch):
    home, work = tmp_path / "home", tmp_path / "work"
    sign_commits(home, work)
    monkeypatch.setenv("HOME", str(home))
    (work / "commit.sh").write_text("git commit --allow-empty -m signed\n")
    commit = "sh commit.sh"  # it names no signature
    [text], [event] = await run(tmp_path, commit, **BYPASS)
    assert "~/.ssh" in str(event.refused) and not subjects(work) and "with the answer 'outside the sandbox'" in text
    [text], events = await run(tmp_path, commit, allowed_tools=[f"Unconfined({commit})", f"Bash({commit})"])
    assert not events and subjects(work) == "signed\n"


@pytest.mark.parametrize(
    "line",
    [
        "error: gpg failed to sign the data",
        'error: No private key found for public key "/home/ann/key.pub"?',
        "error: unable to sign the tag",
    ],
)
def test_a_signature_is_refused_only_where_keys_are_hidden(line):
    keys = frozenset({"/home/ann/.gnupg", "/home/ann/.aws"})
    found = find_refusal(SandboxPolicy(PolicyName.WORK, hidden=keys), line, "/work", replaces_tmp=True)
    assert found is not None and [str(one) for one in found.violations] == ["sign with keys of /home/ann/.gnupg"]
    assert "The user can allow the command with the answer 'outside the sandbox', a rule Unconfined(…)" in found.note()
    assert find_refusal(SandboxPolicy(PolicyName.WORK), line, "/work", replaces_tmp=True) is None


@pytest.mark.finding("3S12")
def test_a_file_that_a_reading_command_could_not_open_was_refused_to_read(tmp_path):
    notes, here = tmp_path / "notes", tmp_path / "work"
    notes.write_text("x")
    here.mkdir()
    reads = SandboxPolicy(PolicyName.READ, readable=frozenset({str(here)}))

    def refused(policy, line):
        found = find_refusal(policy, line, str(here), replaces_tmp=False)
        return [str(one) for one in found.violations] if found is not None else []

    assert refused(reads, f"cat: {notes}: Permission denied") == [f"read {notes}"]
    assert refused(reads, "cat: ../notes: Permission denied") == ["read ../notes"]
    assert (
        refused(reads, f"cat: {here}/cache/x: Permission denied")
        == []
        == refused(reads, "cat: /no/x: Permission denied")
    )
    assert refused(reads, f"touch: cannot touch '{here}/x': Permission denied") == [f"write {here}/x"]
    assert refused(SandboxPolicy(PolicyName.WORK), f"touch: cannot touch '{notes}': Permission denied") == [
        f"write {notes}"
    ]


@pytest.mark.finding("3S12")
@pytest.mark.parametrize("why", ["Permission denied", "No such file or directory"])
def test_a_hidden_file_is_refused_to_read_however_it_is_named(tmp_path, why):
    keys = tmp_path / ".ssh"
    keys.mkdir()
    (keys / "id").write_text("k")
    policy = SandboxPolicy(PolicyName.WORK, hidden=frozenset({str(keys)}))
    for name in (keys / "id", "../.ssh/id"):
        found = find_refusal(policy, f"cat: {name}: {why}", str(tmp_path / "work"), replaces_tmp=False)
        assert found is not None and [str(one) for one in found.violations] == [f"read {keys}"], name
