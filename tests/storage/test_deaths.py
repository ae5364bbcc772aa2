"""A kill before every single step on the disk, of all that is done to shared files: nothing is torn, nobody is barred.

Each operation is run again and again, killed one step later each time, until it lives; after each death the files must
be whole, say what was there before, and let the next process do the same at once.
"""

import json
import shutil

import pytest

from teamwright.protocol.members import RosterMember, TeamConfig
from teamwright.protocol.task import parse_task
from teamwright.storage.paths import Home
from teamwright.tasks.task_rules import find_path
from teamwright.team_records.roster import RosterFile
from tests.storage.mortal import PAGE, Mortal

MOST_STEPS = 200
CHANGING_TASKS = {"create", "claim", "claim_next", "release", "update"}


@pytest.fixture(scope="module")
def mortal():
    made = Mortal(None)
    yield made
    made.close()


@pytest.fixture
def deaths(mortal, tmp_path):
    """Run `do` on copies of the state that `before` lays down, killed before each step; yields (home, answer)."""

    def one(do, args, at, *, torn):
        home = Home.at(tmp_path / f"{at}{'t' if torn else ''}")
        shutil.copytree(tmp_path / "start", home.shared)
        mortal.root = home.shared
        return home, mortal.life(do, at=at, torn=torn, **args)

    def every(before, do, **args):
        start = Home.at(tmp_path / "start")
        start.team("demo").mkdir(parents=True)
        mortal.root = start.shared
        known = before(mortal, start)
        args = {key: value(known) if callable(value) else value for key, value in args.items()}
        steps = []
        for at in range(MOST_STEPS):
            home, answer = one(do, args, at, torn=False)
            yield home, answer, known
            nothing_is_left(home, locks=do not in CHANGING_TASKS)
            if "died" not in answer:
                break
            steps.append(answer["died"])
        assert 2 < len(steps) < MOST_STEPS
        for at in [at for at, step in enumerate(steps) if step in {"write", "pwrite"}]:
            home, answer = one(do, args, at, torn=True)
            yield home, answer, known
            nothing_is_left(home, locks=do not in CHANGING_TASKS)

    return every


def nothing_is_left(home, locks):
    """Nothing was set aside as damaged or stale; the lock of a task may wait for whoever changes that task next."""
    names = [p.name for p in home.shared.rglob("*") if p.is_dir() or ".json." in p.name]
    assert not [name for name in names if ".bad." in name or ".stale." in name]
    assert not locks or not [name for name in names if name.endswith(".lock")]


# ── inboxes ──────────────────────────────────────────────────────────────────────────────────────────────────────


def mail(count, size=30, read=0):
    def before(mortal, home):
        sent = mortal.life("send", texts=[f"{n} " + "x" * size for n in range(count)])["done"]
        mortal.life("mark_read", ids=sent[:read])
        return sent

    return before


def entries(home):
    file = home.inbox("demo", "bob")
    return json.loads(file.read_bytes()) if file.exists() else []


def archived(home):
    file = home.inbox_archive("demo", "bob")
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]] if file.exists() else []


@pytest.mark.promise("P1", "F03", "F04", "F29")
@pytest.mark.parametrize(
    ("there", "texts"),
    [
        (0, ["first"]),
        (3, ["in place"]),
        (24, ["over the end of the page " + "y" * 200]),
        (3, ["z" * 20_000]),
        (3, ["a", "b"]),
    ],
    ids=["a new file", "in place", "over a page", "large", "together"],
)
@pytest.mark.slow_after(1)
def test_a_sender_killed_before_any_step_tears_nothing_and_bars_nobody(deaths, mortal, there, texts):
    for home, answer, known in deaths(mail(there, 100), "send", texts=texts):
        found = entries(home)
        assert [e["msg_id"] for e in found[: len(known)]] == known
        new = [e["text"] for e in found[len(known) :]]
        assert new == texts[: len(new)]
        if "done" in answer:
            assert [e["msg_id"] for e in found[len(known) :]] == answer["done"]
        (next_one,) = mortal.life("send", texts=["next"])["done"]
        assert [e["msg_id"] for e in entries(home)] == [e["msg_id"] for e in found] + [next_one]


@pytest.mark.promise("P1", "F02", "F04", "F29")
@pytest.mark.parametrize("size", [30, 3_000])
@pytest.mark.slow
def test_an_owner_killed_while_it_flags_has_flagged_whole_entries_and_can_flag_again(deaths, mortal, size):
    for home, _, known in deaths(mail(6, size), "mark_read", ids=lambda known: known[1:4]):
        found = entries(home)
        assert [e["msg_id"] for e in found] == known
        assert {e["msg_id"] for e in found if e["read"]} <= set(known[1:4])
        assert "done" in mortal.life("mark_read", ids=known[1:4])
        assert [e["read"] for e in entries(home)] == [False, True, True, True, False, False]


@pytest.mark.promise("P1", "F04")
@pytest.mark.parametrize("inside", range(1, 5))
@pytest.mark.slow_after(1)
def test_a_flag_that_lies_on_two_pages_is_never_half_set(deaths, mortal, tmp_path, inside):
    def before(mortal, home):
        mortal.root = tmp_path / "probe"
        Home.at(mortal.root).team("demo").mkdir(parents=True)
        mortal.life("send", texts=["x"])
        probe = Home.at(mortal.root).inbox("demo", "bob").read_bytes()
        mortal.root = home.shared
        more = PAGE - inside - (probe.index(b'"read":') + len('"read":'))
        known = mortal.life("send", texts=["x" * (1 + more)])["done"]
        flag = home.inbox("demo", "bob").read_bytes().index(b"false}")
        assert flag // PAGE != (flag + 4) // PAGE
        return known

    for home, _, known in deaths(before, "mark_read", ids=lambda known: known):
        assert [e["msg_id"] for e in entries(home)] == known
        assert "done" in mortal.life("mark_read", ids=known)
        assert [e["read"] for e in entries(home)] == [True]


@pytest.mark.promise("P1", "F10", "F29", "C9")
@pytest.mark.slow
def test_an_owner_killed_while_it_archives_loses_and_doubles_nothing(deaths, mortal):
    for home, _, known in deaths(mail(110, read=99), "mark_read", ids=lambda known: known[:104]):
        there = [e["msg_id"] for e in archived(home)] + [e["msg_id"] for e in entries(home)]
        assert set(there) == set(known)
        assert "done" in mortal.life("mark_read", ids=known[:104])
        assert [e["msg_id"] for e in archived(home)] + [e["msg_id"] for e in entries(home)] == known
        assert [e["msg_id"] for e in entries(home) if not e["read"]] == known[104:]


@pytest.mark.promise("P1", "F05", "C3")
@pytest.mark.slow
def test_an_owner_killed_while_it_names_strangers_entries_gives_each_one_name(deaths, mortal):
    def before(mortal, home):
        mortal.life("send", texts=["ours"])
        theirs = [{"from": "zed", "text": str(n), "timestamp": "2026-11-20T22:53:56.642Z", "odd": n} for n in range(3)]
        home.inbox("demo", "bob").write_text(json.dumps(entries(home) + theirs, indent=2))

    for home, answer, _ in deaths(before, "unread"):
        assert [e["text"] for e in entries(home)] == ["ours", "0", "1", "2"]
        assert "done" in mortal.life("send", texts=["and"])
        named = mortal.life("unread")["done"]
        assert named == mortal.life("unread")["done"]
        assert len({msg_id for msg_id, _ in named}) == 5
        assert [e.get("odd") for e in entries(home)] == [None, 0, 1, 2, None]
        if "done" in answer:
            assert named[:4] == answer["done"]


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def some_tasks(mortal, home):
    """1 ← 2 ← 3, 4 is ann's and in progress, 5 is completed, 6 was deleted."""
    for after in ([], ["1"], ["2"], [], [], []):
        mortal.life("create", blocked_by=after)
    mortal.life("claim", id="4", by="ann")
    mortal.life("update", id="5", status="completed")
    mortal.life("update", id="6", status="deleted")


def tasks_of(home):
    files = sorted(home.tasks("demo").glob("*.json"), key=lambda f: int(f.stem))
    found = {f.stem: parse_task(f.read_bytes(), f.stem) for f in files}
    assert None not in found.values()
    return found


def graph_holds(tasks):
    """No circle on either side of the edges."""
    edges = {(a, t.id) for t in tasks.values() for a in t.blocked_by} | {
        (t.id, b) for t in tasks.values() for b in t.blocks
    }
    for a, b in edges:
        assert find_path(b, a, lambda id: [y for x, y in edges if x == id]) is None


@pytest.mark.slow
@pytest.mark.promise("P2", "P5", "F13", "F14", "F16", "F17", "F18", "F29", "B1", "B3", "B5", "B7")
@pytest.mark.parametrize(
    ("do", "args"),
    [
        ("create", {}),
        ("create", {"blocked_by": ["1", "4"]}),
        ("claim_next", {"by": "bob"}),
        ("claim", {"id": "1", "by": "bob"}),
        ("release", {"owner": "ann"}),
        ("update", {"id": "4", "by": "ann", "status": "completed"}),
        ("update", {"id": "1", "add_blocked_by": ["4"], "add_blocks": ["5"], "subject": "more"}),
        ("update", {"id": "2", "status": "deleted"}),
        ("update", {"id": "3", "add_blocks": ["1"]}),
    ],
    ids=["create", "create behind two", "claim next", "claim", "release", "complete", "edges", "delete", "circle"],
)
def test_a_task_list_whose_writer_is_killed_before_any_step_is_whole_and_goes_on(deaths, mortal, do, args):
    start = None
    for home, _, _ in deaths(some_tasks, do, **args):
        start = start or tasks_of(Home.at(home.shared.parent / "start"))
        tasks = tasks_of(home)
        graph_holds(tasks)
        untouched = set(start) - {"1", "2", "3", "4", "5"}
        assert set(start) - {"2"} <= set(tasks) and untouched <= set(tasks)
        again = mortal.life(do, **args)
        assert again.get("refused") != "lock-timeout"
        new = int(mortal.life("create")["done"])
        assert new >= 7 and new > max(int(id) for id in tasks)
        done = tasks_of(home)
        graph_holds(done)
        if do == "claim_next":
            assert done["1"].owner == "bob"
        if do == "release":
            assert done["4"].owner is None
        if args.get("status") == "completed":
            assert done["4"].status == "completed"
        if "subject" in args:
            assert done["1"].blocked_by == ("4",) and "5" in done["1"].blocks and done["1"].subject == "more"
        if args.get("status") == "deleted":
            assert "2" not in done and mortal.life("claim", id="3", by="bob") == {"done": "3"}


@pytest.mark.slow
@pytest.mark.promise("P2", "F17", "B3")
def test_a_circle_through_an_edge_that_a_killed_process_wrote_on_one_side_is_refused(deaths, mortal):
    """1 ← 2 may be half there; 2 ← 3 is whole; then nothing that waits for 3 may hold back 1."""
    for home, _, _ in deaths(lambda mortal, _: mortal.life("create"), "create", blocked_by=["1"]):
        waits = "2" in tasks_of(home)
        if not waits:
            mortal.life("create", blocked_by=["1"])
        mortal.life("create", blocked_by=["2"])
        answer = mortal.life("update", id="1", add_blocked_by=["3"])
        assert (answer["refused"], answer["what"].count("→")) == ("cycle", 3)


# ── the roster ───────────────────────────────────────────────────────────────────────────────────────────────────


def a_roster(mortal, home):
    lead = RosterMember("team-lead@demo", "team-lead", joined_at=1)
    RosterFile(home, "demo").create(TeamConfig("demo", lead.agent_id, "s", 1, None, (lead,)))
    for name in ("ann", "cyd"):
        mortal.life("join", name=name)


def names(home):
    return [m["name"] for m in json.loads(home.config("demo").read_bytes())["members"]]


@pytest.mark.promise("F04", "F26", "F29", "A3", "A4")
@pytest.mark.parametrize(
    ("do", "args", "after"),
    [
        ("join", {"name": "bob"}, ["team-lead", "ann", "cyd", "bob"]),
        ("leave", {"name": "ann"}, ["team-lead", "cyd"]),
        ("set_active", {"name": "cyd", "active": True}, ["team-lead", "ann", "cyd"]),
    ],
)
@pytest.mark.slow_after(1)
def test_a_roster_whose_writer_is_killed_before_any_step_is_the_old_or_the_new(deaths, mortal, do, args, after):
    for home, answer, _ in deaths(a_roster, do, **args):
        assert names(home) in (["team-lead", "ann", "cyd"], after)
        assert "died" in answer or names(home) == after
        again = mortal.life(do, **args)
        assert "done" in again or (do == "join" and again["refused"] == "team-refused")
        assert names(home) == after


# ── requests, journals, locks ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("P4", "F04")
@pytest.mark.parametrize("do", ["ask", "answer", "retire"])
def test_a_request_is_whole_or_not_there_and_has_one_answer_whoever_is_killed(deaths, mortal, do):
    def before(mortal, home):
        if do != "ask":
            mortal.life("ask", id="plan-1@ann", body={"requester": "ann"})
        if do == "retire":
            mortal.life("answer", id="plan-1@ann", body={"approve": True})

    args = {"ask": {"body": {"requester": "ann"}}, "answer": {"body": {"approve": True}}, "retire": {}}[do]
    for home, _, _ in deaths(before, do, id="plan-1@ann", **args):
        place = home.shared / "requests"
        for file in place.rglob("*.json"):
            assert json.loads(file.read_bytes())["id"] == "plan-1@ann"
        was_there = (place / "plan-1@ann.answer.json").exists()
        again = mortal.life(do, id="plan-1@ann", **args)
        assert again == {"done": None if do != "answer" else not was_there}
        left = {p.name for p in place.glob("*.json")}
        assert left == {"ask": {"plan-1@ann.json"}, "answer": {"plan-1@ann.json", "plan-1@ann.answer.json"}}.get(
            do, set()
        )


@pytest.mark.promise("P5", "F57", "F29")
def test_a_journal_whose_writer_is_killed_anywhere_has_whole_lines_from_its_beginning(deaths, mortal):
    def before(mortal, home):
        mortal.life("append", lines=['{"n":0}', '{"n":1}'])

    new = [json.dumps({"n": n, "x": "y" * 10 * n}) for n in (2, 3, 4, 5, 6, 7)]
    for home, _, _ in deaths(before, "append", lines=new):
        mortal.life("append", lines=['{"n":"last"}'])
        found = [json.loads(line)["n"] for line in (home.shared / "journal.jsonl").read_bytes().splitlines()]
        assert found == [*range(len(found) - 1), "last"]
        assert len(found) >= 3


@pytest.mark.slow
@pytest.mark.promise("F29")
def test_an_owner_of_a_lock_killed_before_any_step_bars_the_next_for_no_time(deaths, mortal):
    steps = []
    for _, answer, _ in deaths(lambda *_: None, "hold", name="file"):
        steps.append(answer.get("died"))
        assert "done" in mortal.life("hold", name="file", wait_s=0.5)
    assert {"mkdir", "utime", "pwrite", "rmdir"} <= set(steps)


@pytest.mark.slow
@pytest.mark.promise("F29")
def test_two_owners_killed_one_after_the_other_before_any_two_steps_bar_the_next_for_no_time(mortal, tmp_path):
    steps = range(9)
    for first in steps:
        for second in steps:
            mortal.root = tmp_path / f"{first}-{second}"
            mortal.root.mkdir()
            for at in (first, second):
                mortal.life("hold", at=at, name="file")
            assert "done" in mortal.life("hold", name="file", wait_s=0.5), (first, second)
