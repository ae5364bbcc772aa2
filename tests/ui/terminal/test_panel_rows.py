"""Members, tasks and the session as rows: what stands there, what is left out, and that every row fits."""

import asyncio
import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from teamwright.protocol.events import TaskChanged, TaskInfo
from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import MemberState
from teamwright.protocol.usage import Usage
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.team_status import MemberStatus
from teamwright.ui.display_text import cell_width
from teamwright.ui.terminal.panel import (
    STATUS_PARTS,
    Panel,
    RowContext,
    RowStyle,
    RunningCalls,
    age_starts,
    format_age,
    format_count,
    member_rows,
    seconds_until_change,
    status_line,
    task_rows,
)
from teamwright.ui.terminal.styles import Paint
from teamwright.views.live_status import SessionRow, TaskBoard
from tests.support.waits import WAIT_S

NOW = 1_000_000.0
THE_LEAD = MemberStatus(LEAD, MemberState.IDLE, since=NOW - 5)
GATE = TaskInfo(id="4", subject="wait at the gate", status="in_progress", owner="tester")
TESTER = MemberStatus("tester", MemberState.WORKING, since=NOW - 12, usage=Usage(12_345), task=GATE)


def rows(*members: MemberStatus, beside: RowContext | None = None, **look) -> list[str]:
    wanted = {"width": 79, "max_rows": 8, "now": NOW, **look}
    return member_rows([THE_LEAD, *members], beside or RowContext(), RowStyle(**wanted))


@pytest.mark.promise("H9")
def test_without_members_and_without_work_there_is_no_row():
    assert rows() == []
    assert member_rows([MemberStatus(LEAD, MemberState.WORKING, since=NOW)], RowContext(), RowStyle(79, 8, NOW)) != []


@pytest.mark.promise("H9")
def test_a_row_says_the_state_the_task_the_tokens_and_for_how_long():
    lead, tester = rows(TESTER)
    assert lead.split() == ["○", "lead", "idle"]
    assert tester.split() == ["●", "tester", "working", "#4", "wait", "at", "the", "gate", "12.3k", "12", "s"]


@pytest.mark.promise("H9")
def test_the_call_that_runs_stands_in_the_place_of_the_subject():
    [_, tester] = rows(TESTER, beside=RowContext(calls={"tester": "Bash pytest -q"}))
    assert "#4 Bash pytest -q " in tester


@pytest.mark.promise("H9", "F67")
@pytest.mark.parametrize(
    ("state", "on", "shown"),
    [
        ("blocked", "permission for Bash touch made", "? tester asks     permission for Bash touch made"),
        ("awaiting", "approval of its plan", "? tester asks     approval of its plan"),
        ("waiting", "#3 (historian)", "○ tester waits    #3 (historian)"),
        ("stalled", "nothing comes of the model", "! tester stalled  nothing comes of the model"),
        ("stopping", "was asked to stop, and may object", "… tester stopping was asked to stop"),
        ("starting", "", "… tester starting"),
        ("not running", "", "? tester not run…"),
    ],
)
def test_a_state_has_a_mark_and_a_word_and_says_what_it_waits_for(state, on, shown):
    [_, tester] = rows(MemberStatus("tester", MemberState(state), reason=on, since=NOW - 3))
    assert shown in tester


@pytest.mark.finding("R9")
def test_how_far_the_prompt_is_read_is_shown_before_the_task():
    reading = replace(TESTER, doing="prompt", reason="reads the prompt 41 %")
    [_, tester] = rows(reading)
    assert "working  reads the prompt 41 %" in tester


@pytest.mark.promise("H9")
def test_idle_members_share_a_row_and_one_alone_has_its_own():
    idle = [MemberStatus(name, MemberState.IDLE, since=NOW) for name in ("ada", "ben", "cleo")]
    assert rows(TESTER, *idle)[-1] == " ○ 3 idle: ada, ben, cleo"
    assert rows(TESTER, idle[0])[-1].split() == ["○", "ada", "idle"]


@pytest.mark.promise("H9")
def test_sub_agents_in_the_background_are_counted_on_their_owners_row():
    idle = [MemberStatus(name, MemberState.IDLE, since=NOW) for name in ("ada", "ben", "cleo")]
    shown = rows(*idle, beside=RowContext(background_counts={"ada": 2}))
    assert [row for row in shown if "ada" in row] == [shown[1]]
    assert "+2 sub-agents" in shown[1]


@pytest.mark.promise("H9")
def test_more_members_than_fit_are_counted_with_their_states():
    many = [MemberStatus(f"m{n}", MemberState.WORKING, since=NOW) for n in range(6)] + [
        MemberStatus("last", MemberState.BLOCKED, reason="x", since=NOW)
    ]
    shown = rows(*many, max_rows=4)
    assert len(shown) == 4
    assert shown[-1] == "  … 5 more: 4 working, 1 asks"


@pytest.mark.promise("H9")
@given(st.integers(1, 40), st.integers(3, 9), st.data())
def test_whoever_is_marked_is_always_among_the_rows_and_the_others_are_counted(members, most, data):
    names = [f"m{n}" for n in range(members)]
    marked = data.draw(st.sampled_from(names))
    shown = rows(*(MemberStatus(name, MemberState.IDLE, since=NOW) for name in names), max_rows=most, selected=marked)
    assert len(shown) <= most
    assert len([row for row in shown if row.startswith(">") and row.split()[1] == marked]) == 1
    counted = sum(int(row.split()[1]) for row in shown if row.startswith(("  ↑", "  ↓")))
    own = sum(not row.startswith(("  ↑", "  ↓")) for row in shown)
    assert own + counted == members + 1


HOSTILE = st.text(st.sampled_from("ab 漢é👩‍🔬\x1b[]2J\x07\u202e\n\t\x9b"), max_size=60)


@pytest.mark.promise("H9", "K11")
@given(HOSTILE, HOSTILE, st.integers(1, 120), st.sampled_from(["working", "blocked", "idle", "starting"]))
def test_no_row_is_wider_than_the_window_or_steers_the_terminal(text, name, width, state):
    task = TaskInfo(id="7", subject=text, status="in_progress", owner=name, blocked_by=("8",))
    member = MemberStatus(name or "x", MemberState(state), reason=text, since=NOW - 70, usage=Usage(5_000), task=task)
    board = TaskBoard()
    board.add_event(TaskChanged(member="x", task=task, change="created"))
    shown = rows(member, MemberStatus("y", MemberState.IDLE), MemberStatus("z", MemberState.IDLE), width=width)
    for row in [*shown, *task_rows(board, width, 8, Paint())]:
        assert cell_width(row) <= max(width, 4)
        assert row.replace("\u200d", "").isprintable()


@pytest.mark.promise("H9", "K11")
def test_forty_columns_are_enough_for_who_and_what_and_how_long():
    [_, tester] = rows(TESTER, width=39)
    assert cell_width(tester) <= 39
    assert tester.split() == ["●", "tester", "#4", "wait", "at", "the", "gate", "12", "s"]


@pytest.mark.promise("K11")
def test_colours_say_nothing_that_the_text_does_not():
    plain, painted = rows(TESTER), rows(TESTER, paint=Paint(True))
    assert "\x1b[" in "".join(painted)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", row).rstrip() for row in painted] == plain


@pytest.mark.promise("F66", "H9")
def test_a_secret_is_masked_before_a_row_is_cut_in_the_middle_of_it():
    member = MemberStatus("ada", MemberState.WORKING, since=NOW)
    command = "Bash curl -H 'x-api-key: hunter2hunter2'"
    [_, row] = rows(
        member,
        beside=RowContext(calls={"ada": command}),
        width=45,
        mask=lambda text: text.replace("hunter2hunter2", "***"),
    )
    assert "hunter" not in row


# ── ages ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("H9")
@given(st.floats(0, 10**7))
def test_the_words_for_an_age_change_when_it_is_said_that_they_do_and_not_before(seconds):
    after = seconds_until_change(seconds)
    assert after > 0
    if after > 0.2:
        assert format_age(seconds + after - 0.1) == format_age(seconds)
        assert format_age(seconds + after + 0.01) != format_age(seconds)


def test_ages_and_counts_are_short():
    assert [format_age(s) for s in (-1, 0, 59.9, 60, 3599, 3600, 86_400 * 3)] == [
        "0 s",
        "0 s",
        "59 s",
        "1 min",
        "59 min",
        "1 h",
        "3 d",
    ]
    assert [format_count(n) for n in (0, 999, 1_000, 12_345, 99_949, 234_567, 1_250_000)] == [
        "0",
        "999",
        "1.0k",
        "12.3k",
        "99.9k",
        "235k",
        "1.2M",
    ]


@pytest.mark.promise("F63")
def test_who_is_idle_has_no_age_so_nothing_is_redrawn_for_it():
    assert age_starts([THE_LEAD, MemberStatus("ada", MemberState.IDLE, since=NOW)]) == []
    assert age_starts([THE_LEAD, TESTER]) == [TESTER.since]


# ── the status ───────────────────────────────────────────────────────────────────────────────────────────────

SESSION = SessionRow("sonnet", "acceptEdits", 68_000, 200_000, 0.4211, None, 41_200, 2, 3, 6)


@pytest.mark.promise("H9")
def test_the_status_says_model_mode_context_cost_tokens_tasks_and_requests():
    assert status_line(SESSION, 120) == (
        "sonnet · acceptEdits · context 34% of 200k · $0.42 · 41.2k tokens · 3/6 tasks · 2 requests wait"
    )


@pytest.mark.promise("H9")
def test_a_price_that_is_not_known_is_never_nothing_and_a_cap_is_named():
    assert "$ unknown" in status_line(replace(SESSION, usd=None), 120)
    assert "$0.42 of $1.00" in status_line(replace(SESSION, usd_cap=1.0), 120)


@pytest.mark.promise("H9")
@given(st.integers(1, 130))
def test_the_status_fits_and_drops_what_matters_least_first(width):
    line = status_line(SESSION, width)
    assert cell_width(line) <= width
    order = sorted(STATUS_PARTS, key=lambda part: part.gives_way)
    there = [part.text(SESSION) in line for part in order]
    assert there == sorted(there, reverse=True)


@pytest.mark.promise("H9")
def test_eighty_columns_hold_all_but_the_tokens():
    line = status_line(SESSION, 79)
    assert "tokens" not in line
    assert all(word in line for word in ("acceptEdits", "34%", "$0.42", "3/6", "2 requests"))


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


def board(*tasks: TaskInfo) -> TaskBoard:
    made = TaskBoard()
    for task in tasks:
        made.add_event(TaskChanged(member="lead", task=task, change="updated"))
    return made


def task(id: str, status: str = "pending", owner: str | None = None, after: tuple[str, ...] = ()) -> TaskInfo:
    return TaskInfo(id=id, subject=f"job {id}", status=status, owner=owner, blocked_by=after)


@pytest.mark.promise("H9")
def test_the_task_list_says_who_has_what_and_what_waits_for_what_and_counts_what_is_done():
    shown = task_rows(
        board(task("1", "completed"), task("4", after=("2", "3", "1")), task("3"), task("2", "in_progress", "ada")),
        79,
        8,
        Paint(),
    )
    assert shown == [" ▸ #2 job 2  ada", " · #3 job 3", " · #4 job 4  waits for #2 #3", "   1 done"]


@pytest.mark.promise("H9")
def test_tasks_that_do_not_fit_are_counted():
    shown = task_rows(board(*(task(str(n)) for n in range(1, 21)), task("30", "completed")), 79, 5, Paint())
    assert len(shown) == 5
    assert shown[-1] == "   … 16 more open, 1 done"


@pytest.mark.promise("F67")
def test_a_task_that_is_deleted_or_done_is_not_open_and_one_that_is_taken_up_again_is():
    found = board(task("1"), task("2"), task("1", "deleted"), task("2", "completed"))
    assert task_rows(found, 79, 5, Paint()) == ["   no open task, 1 done"]
    found.add_event(TaskChanged(member="lead", task=task("2"), change="updated"))
    assert (list(found.open), found.done) == (["2"], 0)


class ReadOnce:
    """Where a panel's values come from: the task list of a process, whose reads are counted."""

    def __init__(self, tasks: TaskList) -> None:
        self.team: Any = SimpleNamespace(tasks=tasks)
        self.reads = 0

    def members(self, _board: TaskBoard) -> list[MemberStatus]:
        return [THE_LEAD]

    def now(self, board: TaskBoard) -> SessionRow:
        return replace(SESSION, done=board.done, tasks=board.done + len(board.open))

    async def read(self, board: TaskBoard) -> None:
        self.reads += 1
        await board.read(self.team)


@pytest.mark.finding("T25")
async def test_a_task_that_another_process_changes_is_shown_and_the_list_is_not_read_again(tmp_path):
    ours, theirs = (TaskList(FileTaskStore(tmp_path / "list", lambda path: tmp_path / path.name)) for _ in range(2))
    await theirs.create("job 1", "d", by=LEAD)
    source, redrawn = ReadOnce(ours), asyncio.Event()
    panel = Panel(source, RunningCalls(), Paint(), lambda: LEAD, None, str, changed=redrawn.set)
    follower = ours.watch_external_changes(panel.note_external_task)
    panel.begin()
    async with asyncio.timeout(WAIT_S):
        await redrawn.wait()
    panel.toggle_tasks()
    for number in range(2, 5):
        await theirs.create(f"job {number}", "d", by=LEAD)
    await theirs.update("1", by="ada", status="completed")
    await theirs.update("2", by="ada", status="in_progress", owner="ada")
    await theirs.update("3", by=LEAD, status="deleted")
    redrawn.clear()
    await follower.check_files()
    assert redrawn.is_set()
    assert panel.lines()[:3] == [" ▸ #2 job 2  ada", " · #4 job 4", "   1 done"]
    assert source.reads == 1
    follower.close()
    panel.end()
