"""`status` as lines and as JSON: what is open comes first, and finished tasks cost nothing."""

import json

import pytest

from teamwright.protocol.members import MemberState
from teamwright.protocol.pending_request import PendingRequest
from teamwright.protocol.task import IntegrationState, TaskStatus
from teamwright.tasks import task_file
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.snapshots import TaskView, TeamView, task_views
from teamwright.team_records.team_status import MemberStatus
from teamwright.ui.cli.output import task_rows
from teamwright.ui.cli.reports import WatchScreen, status_lines
from teamwright.views.status import StatusView
from teamwright.worktrees.integration_store import FileIntegrationStore, IntegrationEntry

ADA = MemberStatus("ada", MemberState.WORKING, open_tasks=("9",))


def view(done: int, open_: int, **more) -> StatusView:
    tasks = [TaskView(str(n), "old", "completed") for n in range(1, done + 1)]
    tasks += [TaskView(str(done + n), "new", "pending") for n in range(1, open_ + 1)]
    return StatusView("crew", "live", "crew", members=(ADA,), tasks=tuple(tasks), completed=done, **more)


@pytest.mark.finding("T24")
def test_requests_and_open_tasks_are_listed_first_and_finished_ones_as_a_number():
    asked = PendingRequest("perm-1", "permission", "ada", "ada", "Bash", "git push")
    lines = status_lines(view(600, 30, requests=(asked,)), most_tasks=20)
    where = {
        word: next(n for n, line in enumerate(lines) if line.startswith(word)) for word in ("request", "task", "ada")
    }
    assert where["request"] < where["task"] < where["ada"]
    assert len(lines) < 45 and "and 10 more open tasks" in lines
    assert lines[-1] == "600 tasks are completed" and not any("old" in line for line in lines)


@pytest.mark.finding("T24")
def test_a_watch_in_json_writes_on_change_only_and_finished_tasks_once(capsys):
    screen = WatchScreen(None, as_json=True, draws=False)
    for now in (view(600, 2, at=1.0), view(600, 2, at=2.0), view(601, 1, at=3.0), view(601, 1, at=4.0)):
        screen.show(now)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert len(first["tasks"]) == 602
    assert [task["id"] for task in second["tasks"]] == ["601", "602"]
    assert (first["completed"], second["completed"]) == (600, 601)


@pytest.mark.finding("T24")
async def test_a_second_look_at_a_list_reads_only_what_changed(tmp_path, monkeypatch):
    tasks, known, reads = (
        TaskList(FileTaskStore(tmp_path / "list", lambda path: tmp_path / "guards" / path.name)),
        {},
        [],
    )
    for number in range(5):
        await tasks.create(f"task {number}", "", by="team-lead")
    read = task_file._read
    monkeypatch.setattr(task_file, "_read", lambda path: reads.append(path) or read(path))
    while not all(found.is_stable for found in known.values()) or not known:
        first = task_views(tmp_path / "list", known)
    reads.clear()
    assert task_views(tmp_path / "list", known) == first and not reads
    await tasks.update("3", subject="other", by="team-lead", lead=True)
    reads.clear()
    assert task_views(tmp_path / "list", known)[2].subject == "other"
    assert [path.rpartition("/")[2] for path in reads] == ["3.json"]


@pytest.mark.parametrize(("tip", "shown"), [("b" * 40, "completed, merged"), ("c" * 40, "completed, queued")])
async def test_a_commit_that_another_process_merged_is_shown_as_merged_before_the_lead_resumes(tmp_path, tip, shown):
    store = FileTaskStore(tmp_path / "list", lambda path: tmp_path / "guards" / path.name)
    await TaskList(store).create("task", "", by="team-lead")
    note = {"state": "queued", "branch": "teamwright/crew/ada", "tip": "b" * 40, "base": "a" * 40}
    await store.change("1", lambda task, _: task.copy_with(status=TaskStatus.COMPLETED, metadata={"integration": note}))
    merged = IntegrationEntry(
        f"ada-1-{tip[:12]}", "teamwright/crew/ada", tip, "a" * 40, "ada", "crew", "1", state=IntegrationState.MERGED
    )
    await FileIntegrationStore(tmp_path / "queue").add(merged)
    (tmp_path / "queue" / "bob-2-dddddddddddd.json").write_text("{")  # the entries of other tasks are not read
    [row] = task_rows(task_views(tmp_path / "list", queue=tmp_path / "queue"))
    assert row[1] == shown


def test_the_keys_of_a_member_and_a_request_in_json_are_those_of_earlier_versions():
    [member] = view(0, 0).as_json()["members"]
    assert list(member) == [
        *("name", "state", "on", "since", "active", "open_tasks", "unread", "agent_type", "model", "turns", "tokens"),
        *("context", "usd", "mode", "effort", "place", "note"),
    ]
    request = PendingRequest("perm-1", "permission", "ada", "ada", "Bash", "git push")
    [shown] = view(0, 0, requests=(request,)).as_json()["requests"]
    assert list(shown) == ["id", "member", "kind", "what", "at", "owner", "tool", "deadline"]
    [member] = TeamView("crew", "crew", "live", members=(ADA,)).as_json()["members"]
    assert list(member) == [
        *("name", "agent_type", "model", "state", "joined_at", "unread", "messages", "mode", "place"),
    ]


def test_the_command_that_answers_a_request_names_the_home_and_is_never_cut(tmp_path, capsys):
    root = str(tmp_path / ("long" * 30))
    asked = PendingRequest("perm-k7f3a", "permission", "ada", "ada", "Bash", "git push")
    watched = view(1, 0, requests=(asked,))
    command = f"teamwright --home {root} requests allow k7f3a"
    assert any(line.strip() == command for line in status_lines(watched, root=root))
    WatchScreen(root, as_json=False, draws=False).show(watched)
    assert f"({command})" in capsys.readouterr().out
