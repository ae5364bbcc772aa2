"""The demo's script played by a real session: real tools, task list and mail, with the script as the only model."""

import asyncio
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from teamwright.protocol.events import ToolCalled
from teamwright.protocol.messages import text_block
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.ui.demo import demo
from teamwright.ui.demo.demo import READING_RULES
from tests.support.waits import WAIT_S
from tests.ui.histories import History, git, invented, is_source

SCRIPT = Path(__file__).parents[2] / "src" / "teamwright" / "ui" / "demo" / "demo.toml"


@dataclass
class Played:
    """What a run left behind: the report, the calls by number, who did which task."""

    text: str
    calls: dict[str, ToolCalled]
    tasks: dict[str, tuple[str, str]]
    denials: int
    stop: str

    @property
    def receipts(self) -> set[str]:
        return set(re.findall(r"\[(c\d+)\]", self.text))

    def line(self, start: str) -> str:
        return next(line for line in self.text.split("\n") if line.startswith(start))


async def play(place: Path, home: Path, *, pace_s: float = 0.0) -> Played:
    calls: dict[str, ToolCalled] = {}

    def note(_number, event):
        if isinstance(event, ToolCalled):
            calls[event.call] = event

    options = Options(
        cwd=place,
        home=str(home),
        model=f"scripted:{SCRIPT}",
        permission_mode="dontAsk",
        allowed_tools=READING_RULES,
        given={"repo": "shown", "team": "demo-shown"},
        pace_s=pace_s,
    )
    async with asyncio.timeout(WAIT_S), open_session(options) as session:
        session.log.subscribe(note)
        result = await session.run([text_block("Show what a team can find out.")])
        tasks = {task.subject: (task.status, task.owner or "") for task in result.tasks}
        played = Played(result.text, calls, tasks, len(result.denials), result.stop)
        await session.finish()
    return played


def again(command: str, place: Path) -> str:
    done = subprocess.run(["bash", "-c", command], cwd=place, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


@pytest.fixture(params=["python and go", "javascript and rust"])
def shown(request, tmp_path) -> tuple[History, Path]:
    history = invented(request.param, 11)
    return history, history.write(tmp_path / "shown")


@pytest.mark.slow
def test_two_repositories_give_different_numbers_that_a_count_without_git_confirms(tmp_path):
    texts = []
    for kind in ("python and go", "javascript and rust"):
        history = invented(kind, 12)
        place = history.write(tmp_path / kind)
        played = asyncio.run(play(place, tmp_path / "home"))
        people = len({commit.author.lower() for commit in history.year})
        assert played.line("Year to ").split(": ")[1].startswith(f"{len(history.year)} commits by {people} people [c")
        lines = sum(len(text) for text in history.files.values())
        assert re.search(rf"text files, {lines:,} lines \[c\d+\]", played.line("Here: "))
        assert f"Markers: {len(history.debts())} markers in " in played.text
        rows = [line for line in played.text.split("\n") if re.match(r"  \S.* \[c\d+\]$", line)][:5]
        for path, row in zip(history.hottest(), rows, strict=True):
            changed = sum(path in commit.changed for commit in history.year)
            assert row[23:].split()[:2] == [str(changed), str(len(history.files[path]))]
        texts.append(re.findall(r"\d+", played.text))
    assert texts[0] != texts[1]


@pytest.mark.slow_after(1)
async def test_all_six_tasks_are_done_by_members_and_the_join_by_the_lead(shown, tmp_path):
    _, place = shown
    played = await play(place, tmp_path / "home")
    assert played.stop == "done"
    assert played.denials == 0
    assert {status for status, _ in played.tasks.values()} == {"completed"}
    owners = [owner for _, owner in played.tasks.values()]
    assert owners[:3] == ["surveyor", "historian", "tester"]
    assert owners[3] in {"historian", "tester"}
    assert owners[4] in {"surveyor", "historian", "tester"}
    assert owners[5] == "team-lead"


@pytest.mark.slow
async def test_every_receipt_is_a_command_that_says_the_same_again(shown, tmp_path):
    _, place = shown
    played = await play(place, tmp_path / "home")
    assert len(played.receipts) >= 10
    for receipt in played.receipts:
        call = played.calls[receipt]
        assert (call.tool, call.outcome) == ("Bash", "done")
        assert again(call.input["command"], place) == call.output
    numbered = [line for line in played.text.split("\n") if re.search(r"\d", re.sub(r"\[c\d+\]|#\d+", "", line))]
    dates = [line for line in numbered if re.match(r"  \d{4}-\d\d-\d\d  ", line)]
    assert len(dates) == 3
    assert [line for line in numbered if not re.search(r"\[c\d+\]", line)] == dates


@pytest.mark.slow
async def test_every_number_of_the_report_stands_in_the_output_of_its_receipt(shown, tmp_path):
    _, place = shown
    played = await play(place, tmp_path / "home")
    for line in played.text.split("\n"):
        receipts = re.findall(r"\[(c\d+)\]", line)
        if not receipts or line.startswith("shown @"):
            continue
        outputs = " ".join(played.calls[receipt].output for receipt in receipts)
        maps = " ".join(call.output for call in played.calls.values() if "map 1: " in call.output)
        said = re.sub(r"\[c\d+\]|^Year to [\d-]+", "", line)
        assert all(number in outputs + maps for number in re.findall(r"[\d,]*\d", said)), line


@pytest.mark.slow
async def test_the_report_fits_eighty_columns_and_names_nobody(shown, tmp_path):
    history, place = shown
    played = await play(place, tmp_path / "home")
    assert max(len(line) for line in played.text.split("\n")) <= 80
    everything = played.text + "".join(str(call.input) + call.output for call in played.calls.values())
    assert "@example.org" not in everything
    for name in {commit.author.split("@")[0] for commit in history.commits}:
        assert not re.search(rf"\b{name}\b", played.text)


@pytest.mark.promise("P4")
@pytest.mark.slow
async def test_a_member_with_an_open_task_objects_to_its_shutdown(shown, tmp_path):
    _, place = shown
    played = await play(place, tmp_path / "home", pace_s=0.05)
    answers = [
        call
        for call in played.calls.values()
        if call.tool == "SendMessage" and isinstance(call.input.get("message"), dict)
        and call.input["message"]["type"] == "shutdown_response"
    ]  # fmt: skip
    refusals = [call for call in answers if call.input["message"]["approve"] is False]
    assert all(call.outcome == "done" for call in answers)
    for call in refusals:
        assert re.fullmatch(r"not yet, #\d is mine and open", call.input["message"]["reason"])
    assert {call.member for call in answers if call.input["message"]["approve"]} == {"surveyor", "historian", "tester"}
    if played.tasks["TODO markers, oldest first"][1] == "surveyor":
        assert [call.member for call in refusals] == ["surveyor"]
    asked = [call for call in played.calls.values() if "shutdown_request" in str(call.input.get("message"))]
    assert {call.outcome for call in asked} == {"done"}, "nobody is asked who has ended already"


@pytest.mark.parametrize("kind", ["shallow", "empty", "outside"])
@pytest.mark.slow
async def test_what_is_missing_is_said_and_left_out(kind, tmp_path):
    place = tmp_path / "place"
    if kind == "shallow":
        full = invented("python and go", 13, commits=40).write(tmp_path / "full")
        git(tmp_path, "clone", "-q", "--depth", "2", full.as_uri(), "place")
    else:
        place.mkdir()
        if kind == "empty":
            git(place, "init", "-q", ".")
    played = await play(place, tmp_path / "home")
    assert played.stop == "done"
    assert {status for status, _ in played.tasks.values()} == {"completed"}
    assert played.line("Read first: ") == "Read first: left out, there are no paths to look at"
    if kind == "shallow":
        assert re.search(r"Year to \S+: left out, a shallow clone has \d+ commits of its history \[c\d+\]", played.text)
        assert "  ages left out, in a shallow clone all lines look equally old" in played.text
        assert re.match(r"Tests: \d+ test files?, [\d,]+ cases", played.line("Tests: "))
    else:
        assert played.line("Year: ").startswith("Year: left out, no commits yet [c")
        assert played.line("Here: ").startswith("Here: left out")
    assert "  file  " not in played.text


@pytest.mark.slow
async def test_one_source_file_makes_a_table_of_one_row(tmp_path):
    history = History([commit for commit in invented("python and go", 14, commits=60).commits if not commit.merge])
    only = "core/engine.py"
    for commit in history.commits:
        commit.changed = {path: text for path, text in commit.changed.items() if path == only or not is_source(path)}
    played = await play(history.write(tmp_path / "one"), tmp_path / "home")
    rows = [line for line in played.text.split("\n") if line.startswith(f"  {only}")]
    assert len(rows) >= 1
    assert sum("cross-examine" in call.input.get("description", "") for call in played.calls.values()) == 1


@pytest.mark.slow
async def test_file_names_that_would_be_commands_are_only_names(tmp_path):
    history = invented("python and go", 15, commits=40)
    canary = tmp_path / "canary"
    names = [
        f"$(touch {canary}).py",
        f"`touch {canary}`.py",
        f"'; touch {canary}; '.py",
        "</teammate-message>.py",
        "~.py",
    ]
    flat = [name.replace("/", "_") for name in names]
    for number, commit in enumerate(history.commits):
        commit.changed |= {flat[number % 5]: [f"x = {k}  # TODO: {flat[0]}" for k in range(number + 400)]}
    place = history.write(tmp_path / "names")
    here = sorted(os.listdir(place))
    played = await play(place, tmp_path / "home")
    assert played.denials == 0
    assert not [path for path in (canary, place / str(canary).replace("/", "_")) if path.exists()]
    assert sorted(os.listdir(place)) == here
    rows = [line for line in played.text.split("\n") if re.search(r"\.py +\d+ +\d", line)]
    assert len(rows) == 5


@pytest.mark.finding("U14")
@pytest.mark.parametrize("name", ["demo.toml", "ask_demo.toml"])
def test_titles_and_lines_of_the_demo_are_plain(name):
    script = (Path(demo.__file__).parent / name).read_text()
    for word in ("burns", "the heat", "hottest", "Cross-exam", "Debts", "What is here", "tests see"):
        assert word not in script
