"""Parts of a member in a team that another program leads: what it keeps of itself, and how its mail is written."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.external.external_lead import lead_pid_from_env
from teamwright.external.inbox import ExternalMailFormat
from teamwright.external.roster import RECORD_NAME, Departure, MembershipRecord, read_record
from teamwright.protocol.errors import StorageError
from teamwright.protocol.mail import IdleNotification, InboxEntry, parse_entry
from teamwright.protocol.members import RosterMember
from teamwright.team_records.team_state import Incarnation

GOLDEN = Path(__file__).parent.parent / "golden"


def record() -> MembershipRecord:
    life = Incarnation(1795307896175, "/home/you/bob.jsonl", "", mode="")
    entry = RosterMember(
        agent_id="bob@My Team",
        name="bob",
        model="haiku",
        prompt="Go.",
        color="blue",
        plan_mode_required=False,
        joined_at=1795307896100,
        pane_id="%1",
        cwd="/repo",
        backend_type="tmux",
    )
    farewell = Departure("left", "shut down on request", "shutdown-1795307896500@bob", "m-1")
    return MembershipRecord("my-team", 1795307890000, life, entry, True, "acceptEdits", farewell)


@pytest.mark.promise("E8")
def test_what_a_member_keeps_of_itself_is_written_as_its_golden_file_and_read_again(tmp_path):
    record().write(tmp_path)
    golden = json.loads((GOLDEN / "guest_v1.json").read_text())
    assert json.loads((tmp_path / RECORD_NAME).read_text()) == golden
    assert read_record(tmp_path) == record()
    (tmp_path / RECORD_NAME).write_text(json.dumps(golden | {"later": 1}))
    assert read_record(tmp_path) == record()
    assert read_record(tmp_path / "nowhere") is None


@pytest.mark.parametrize("content", ["", "[]", '{"version": 1}', '{"life": 3}'])
@pytest.mark.promise("E8")
def test_a_record_that_is_none_is_an_error_that_names_the_file_and_what_to_do(tmp_path, content):
    (tmp_path / RECORD_NAME).write_text(content)
    with pytest.raises(StorageError, match=r"guest\.json is not ours") as refused:
        read_record(tmp_path)
    assert f"remove {tmp_path / RECORD_NAME}" in refused.value.render()


@pytest.mark.promise("E8")
def test_mail_is_written_in_the_format_that_the_lead_was_seen_to_have():
    dialect = ExternalMailFormat()
    notice = IdleNotification(sender="bob", timestamp="2026-11-20T22:53:56.642Z", result="12", completed_task_id="1")
    entry = InboxEntry("bob", notice.encode(), None, notice.timestamp, "blue", "m-1")
    words, told = dialect.encode_entries(entry)
    assert (words.text, words.summary) == ("12", "12") and words.msg_id not in {None, told.msg_id}
    assert json.loads(told.text) == {
        **{"type": "idle_notification", "from": "bob", "timestamp": notice.timestamp, "idleReason": "available"}
    }
    dialect.note_mail([parse_entry({"from": "team-lead", "text": "x", "msgV": 1, "msg_id": "m", "type": "message"})])
    [told] = dialect.encode_entries(entry)
    assert list(told.to_json()) == ["from", "text", "timestamp", "color", "msgV", "msg_id", "type", "read"]
    assert json.loads(told.text)["result"] == "12"
    failed = replace(notice, result=None, failure_reason="no answer")
    [told] = dialect.encode_entries(replace(entry, text=failed.encode()))
    assert json.loads(told.text)["result"] == "My turn failed: no answer"


@pytest.mark.parametrize(("tmux", "pid"), [("/tmp/tmux-0/claude-swarm-71,9,0", 71), ("/tmp/tmux-0/default,9,0", 0)])
@pytest.mark.promise("E8")
def test_the_lead_s_process_is_read_from_the_name_of_its_tmux_server(tmux, pid):
    assert lead_pid_from_env({"TMUX": tmux}) == pid and lead_pid_from_env({}) == 0
