"""What clients of other makers read of a session: links between messages, sub-agents, a mirror, copies and resets."""

import json
import subprocess
import uuid

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.ui.headless.test_client import FLAGS, Client, client
from tests.ui.program import Program

pytestmark = pytest.mark.finding("C8")

AGENT = ("Agent", {"description": "d", "prompt": "say hi", "subagent_type": "general-purpose"})


def lines_of(home, session):
    """Return the lines of a session's transcript."""
    [path] = home.glob(f"projects/*/{session}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def shown(lines):
    """Return what a reader shows that follows the links from the newest message: the uuids and contents."""
    by_uuid = {line["uuid"]: line for line in lines if line["type"] in ("user", "assistant")}
    found = []
    at = list(by_uuid)[-1]
    while at is not None:
        found.append((at, by_uuid[at]["message"]["content"]))
        at = by_uuid[at]["parentUuid"]
    return found[::-1]


def two_turns(tmp_path, repo, *flags):
    """Run two prompts; return the session's id and the lines of both results."""
    with client(tmp_path, repo, ["One.", "Two."], *flags) as one:
        seen = []
        for text in ("first", "second"):
            one.prompt(text, uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, text)))
            seen.append(one.result())
    return seen[-1][-1]["session_id"], seen


def test_messages_are_linked_and_have_the_ids_of_the_stream_and_of_the_client(tmp_path, repo):
    session, seen = two_turns(tmp_path, repo)
    found = shown(lines_of(tmp_path / "home", session))
    streamed = [line["uuid"] for line in [*seen[0], *seen[1]] if line["type"] == "assistant"]
    assert [content for _, content in found if isinstance(content, str)] == ["first", "second"]
    assert [id for id, content in found if not isinstance(content, str)] == streamed
    assert found[2][0] == str(uuid.uuid5(uuid.NAMESPACE_URL, "second"))
    assert {line["sessionId"] for line in lines_of(tmp_path / "home", session) if "uuid" in line} == {session}


def test_a_resume_sends_the_same_messages_that_were_sent_before(tmp_path, repo):
    two_turns(tmp_path, repo)
    with LoopbackModel.in_thread(["Three."]) as server:
        Program(repo, tmp_path / "home", server.url).run("-c", "-p", "third")
        after = server.bodies[0]["messages"]
    with LoopbackModel.in_thread(["One.", "Two.", "Three."]) as server:
        with_process = Client(
            Program(repo, tmp_path / "other", server.url).start(*FLAGS, stdin=subprocess.PIPE), answers={}
        )
        for text in ("first", "second", "third"):
            with_process.prompt(text)
            with_process.result()
        with_process.process.communicate(timeout=WAIT_S)
        before = server.bodies[-1]["messages"]
    kinds = [[block["type"] for block in message["content"]] for message in before]
    assert [[block["type"] for block in message["content"]] for message in after] == kinds
    assert [message["content"][0]["text"] for message in after] == [one["content"][0]["text"] for one in before]


def test_a_sub_agents_transcript_is_where_other_programs_look_with_the_call_that_started_it(tmp_path, repo):
    with client(tmp_path, repo, [Answer("", tools=[AGENT]), "Hi.", "Done."]) as one:
        one.prompt("go")
        lines = one.result()
    call = next(
        b["id"] for line in lines if line["type"] == "assistant" for b in line["message"]["content"] if "id" in b
    )
    [path] = (tmp_path / "home").glob("projects/*/*/subagents/agent-*.jsonl")
    metadata = json.loads(path.with_suffix(".meta.json").read_bytes())
    assert (metadata["toolUseId"], metadata["agentType"]) == (call, "general-purpose")
    assert "parentAgentId" not in metadata
    (_, prompt), *_ = shown([json.loads(line) for line in path.read_text().splitlines()])
    assert prompt == "say hi"


def go_back(tmp_path, repo, session, seen, *flags):
    last = [line["uuid"] for line in seen[0] if line["type"] == "assistant"][-1]
    with LoopbackModel.in_thread(["Three."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        at = f"--resume-session-at={last}"
        return program.run("-p", "third", "--output-format", "json", f"--resume={session}", at, *flags), server.bodies


@pytest.mark.parametrize("copies", [True, False], ids=["in a copy", "in the session"])
def test_a_session_continues_after_an_earlier_message(tmp_path, repo, copies):
    session, seen = two_turns(tmp_path, repo)
    dropped = f"--resume-drops-turn={uuid.uuid5(uuid.NAMESPACE_URL, 'second')}"
    done, bodies = go_back(tmp_path, repo, session, seen, dropped, *(["--fork-session"] if copies else []))
    result = json.loads(done.stdout)
    assert (result["session_id"] != session) is copies
    assert "Two." not in json.dumps(bodies[0]["messages"])
    prompts = [content for _, content in shown(lines_of(tmp_path / "home", result["session_id"]))]
    assert [text for text in prompts if isinstance(text, str)] == ["first", "third"]
    if copies:
        prompts = [content for _, content in shown(lines_of(tmp_path / "home", session))]
        assert [text for text in prompts if isinstance(text, str)] == ["first", "second"]


def test_a_resume_that_would_drop_another_turn_is_refused_and_the_client_reads_why(tmp_path, repo):
    session, seen = two_turns(tmp_path, repo)
    last = [line["uuid"] for line in seen[0] if line["type"] == "assistant"][-1]
    flags = [f"--resume={session}", "--fork-session", f"--resume-session-at={last}"]
    with client(tmp_path, repo, [], *flags, f"--resume-drops-turn={uuid.uuid4()}") as one:
        one.request("i", subtype="initialize")
        refused = one.result()[-1]
        one.process.communicate(timeout=WAIT_S)
    assert one.process.returncode == 2
    assert refused["is_error"]
    assert refused["errors"][0].startswith("Resume rejected by --resume-drops-turn:")
    assert len(list((tmp_path / "home").glob("projects/*/*.jsonl"))) == 1


def test_a_client_that_mirrors_a_session_can_resume_it_on_another_machine(tmp_path, repo, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    with client(tmp_path, repo, ["Öne.", "The summary.", "Two."], "--session-mirror") as one:
        stored = []
        for text in ("first ☃", "/compact", "second"):
            one.prompt(text)
            stored += one.result()
    frames = [line for line in stored if line["type"] == "transcript_mirror"]
    [path] = {frame["filePath"] for frame in frames}
    session = stored[-1]["session_id"]
    assert path.startswith(str(tmp_path / "config" / "projects")) and path.endswith(f"{session}.jsonl")
    written = tmp_path / "config" / path
    written.parent.mkdir(parents=True)
    entries = [json.dumps(entry, sort_keys=True) for frame in frames for entry in frame["entries"]]
    written.write_text("".join(f"{line}\n" for line in entries))
    with LoopbackModel.in_thread(["Three."]) as server:
        program = Program(repo, tmp_path / "elsewhere", server.url)
        flags = ("--output-format", "stream-json", "--session-mirror", f"--resume={session}")
        done = program.run("-p", "third", *flags)
        messages = json.dumps(server.bodies[0]["messages"], ensure_ascii=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (lines[-1]["session_id"], lines[-1]["result"]) == (session, "Three.")
    assert all(text in messages for text in ("The summary.", "second", "Two.", "third"))
    assert server.bodies[0]["system"] == one.server.bodies[-1]["system"]
    later = [entry for line in lines if line["type"] == "transcript_mirror" for entry in line["entries"]]
    assert [entry["type"] for entry in later if "uuid" in entry] == ["user", "assistant"]


def test_a_client_that_clears_the_conversation_goes_on_in_a_new_session_and_both_resume(tmp_path, repo):
    with client(tmp_path, repo, ["One.", "Two."], "--max-tokens", "100000") as one:
        one.request("i", subtype="initialize")
        one.answer_to("i")
        one.prompt("first")
        old = one.result()[-1]["session_id"]
        one.prompt("/clear")
        lines = one.result()
        one.prompt("second")
        one.result()
    [reset] = [line for line in lines if line["type"] == "conversation_reset"]
    new = lines[-1]["session_id"]
    assert reset["session_id"] == old != new
    assert reset["new_conversation_id"] and reset["uuid"]
    assert old in lines[-1]["result"]
    assert {line["session_id"] for line in lines[lines.index(reset) + 1 :] if "session_id" in line} == {new}
    assert "first" not in json.dumps(one.server.bodies[-1]["messages"])
    for session, text in ((old, "first"), (new, "second")):
        with LoopbackModel.in_thread(["Again."]) as server:
            Program(repo, tmp_path / "home", server.url).run("-p", "more", f"--resume={session}")
            sent = json.dumps(server.bodies[0]["messages"])
        assert [part in sent for part in ("first", "second")] == [text == "first", text == "second"]


def test_a_new_conversation_of_a_client_does_not_renew_the_caps_of_the_run(tmp_path, repo):
    usage = {"input_tokens": 6_000, "output_tokens": 10}
    with client(tmp_path, repo, [Answer("One.", usage=usage), "Two."], "--max-tokens", "6000") as one:
        one.prompt("first")
        one.result()
        one.prompt("/clear")
        one.result()
        one.prompt("second")
        last = one.result()[-1]
    assert (last["is_error"], last["team"]["limit"]) == (True, "tokens")
    assert len(one.server.bodies) == 1


def test_a_team_continues_when_its_client_clears_the_conversation(tmp_path, repo):
    start = ("Agent", {"description": "d", "prompt": "wait", "name": "ada", "team_name": "crew"})

    def script(body):
        text = json.dumps(body["messages"])
        if "You are ada" in text:
            return "I wait."
        if "go" in text and "tool_use" not in text and "cleared" not in text:
            return Answer("", tools=[("TeamCreate", {"team_name": "crew"})])
        if "TeamCreate" in text and "ada" not in text:
            return Answer("", tools=[start])
        return "Done."

    with client(tmp_path, repo, script, "--permission-mode", "bypassPermissions") as one:
        one.prompt("go")
        one.result()
        one.prompt("/clear")
        lines = one.result()
        one.prompt("cleared")
        last = one.result()[-1]
    assert lines[-1]["team"]["name"] == "crew"
    assert [member["name"] for member in last["team"]["members"]] == ["team-lead", "ada"]


def test_user_settings_in_the_state_root_of_a_client_count(tmp_path, repo, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text('{"outputStyle": "Explanatory"}')
    with client(tmp_path, repo, ["One."]) as one:
        one.prompt("first")
        init = next(line for line in one.result() if line.get("subtype") == "init")
    assert init["output_style"] == "Explanatory"


def mirrored(lines):
    return [entry for line in lines if line["type"] == "transcript_mirror" for entry in line["entries"]]


def write_as_client(tmp_path, frame, entries):
    written = tmp_path / "config" / frame["filePath"]
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text("".join(f"{json.dumps(entry, sort_keys=True)}\n" for entry in entries))


def resume_with_mirror(tmp_path, repo, session, *flags):
    with LoopbackModel.in_thread(["Three."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        flags = ("--output-format", "stream-json", "--session-mirror", f"--resume={session}", *flags)
        done = program.run("-p", "third", *flags)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("goes_back", [True, False], ids=["and goes back", "and goes on"])
@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_clients_store_gets_the_lines_that_a_kill_kept_from_it_and_no_line_twice(
    tmp_path, repo, monkeypatch, lost, goes_back
):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    session, seen = two_turns(tmp_path, repo, "--session-mirror")
    sent = mirrored([line for lines in seen for line in lines])
    stored = sent[: len(sent) - lost]
    frame = next(line for line in seen[0] if line["type"] == "transcript_mirror")
    write_as_client(tmp_path, frame, stored)
    [transcript] = (tmp_path / "home").glob(f"projects/*/{session}.jsonl")
    with open(transcript, "ab") as file:
        file.write(b'{"type":"user","uuid":"cut')
    last = [line["uuid"] for line in seen[0] if line["type"] == "assistant"][-1]
    flags = [f"--resume-session-at={last}"] if goes_back else []
    stored += mirrored(resume_with_mirror(tmp_path, repo, session, *flags))
    lines = [entry for entry in stored if entry["type"] != "prefix_text"]
    assert lines == lines_of(tmp_path / "home", session)


@pytest.mark.parametrize(
    "damage",
    [
        {"type": "prefix_text", "name": "abcdef12"},
        {"type": "user", "message": "hello"},
        {"type": "compact", "messages": [1]},
        {"type": 7, "message": {}},
        ["a list"],
        "deep",
    ],
)
def test_a_damaged_session_of_a_client_is_refused_and_changes_nothing(tmp_path, repo, monkeypatch, damage):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    session, seen = two_turns(tmp_path, repo, "--session-mirror")
    frame = next(line for line in seen[0] if line["type"] == "transcript_mirror")
    entries = mirrored(seen[0])
    before = lines_of(tmp_path / "home", session)
    write_as_client(tmp_path, frame, [*entries, damage])
    written = tmp_path / "config" / frame["filePath"]
    written.write_text(written.read_text().replace('"deep"', "[" * 200_000 + "]" * 200_000))
    with LoopbackModel.in_thread([]) as server:
        done = Program(repo, tmp_path / "home", server.url).run(
            "-p", "x", "--output-format", "stream-json", "--session-mirror", f"--resume={session}"
        )
    assert done.returncode == 1 and "cannot be read" in done.stderr and "Traceback" not in done.stderr
    assert lines_of(tmp_path / "home", session) == before


@pytest.mark.parametrize(
    ("flags", "needs"),
    [
        (["--resume-drops-turn=x"], "--resume-drops-turn needs --resume-session-at"),
        (["-c", "--resume-drops-turn=x"], "--resume-drops-turn needs --resume-session-at"),
        (["--resume-session-at=x"], "--resume-session-at needs -c or -r"),
    ],
)
def test_flags_for_an_earlier_message_that_lack_another_name_it(tmp_path, repo, flags, needs):
    done = Program(repo, tmp_path / "home").run("-p", "x", *flags)
    assert done.returncode == 2 and needs in done.stderr
