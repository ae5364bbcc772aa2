"""The demo's commands: their numbers against a count made without git, and that they only read.

`histories` invents repositories and counts them in Python; here the commands of demo.toml are run on them by bash.
"""

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from teamwright.models.scripted.scripted_model import Script
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.shell_verdict import parse_command, prove_read_only
from teamwright.permissions.verdict import Verdict
from teamwright.ui.demo.demo import GIT_COMMAND, READING_RULES
from teamwright.ui.display_text import cell_width
from tests.support.waits import WAIT_S
from tests.ui.histories import CASE, History, baited, git, invented, is_source, is_test, language, snapshot

DEMO = Path(__file__).parents[2] / "src" / "teamwright" / "ui" / "demo"
SCRIPT = Script.load(DEMO / "demo.toml")
COMMANDS = {
    call.name: call.input["command"]
    for part in SCRIPT.file.parts.values()
    for turn in part.turns
    for call in turn.calls
    if call.tool == "Bash"
}
SLOTS = {f"{kind}{k}": "" for kind in ("p", "f", "at") for k in range(1, 6)} | {"rev": "HEAD"}
HISTORIES = [("python and go", 1), ("python and go", 2), ("javascript and rust", 3), ("javascript and rust", 4)]
AWKS = [name for name in ("mawk", "gawk", "original-awk", "busybox") if shutil.which(name)]


def text_of(name: str, **texts: str) -> str:
    command = COMMANDS[name]
    return command if isinstance(command, str) else command.fill({**SLOTS, **texts}.__getitem__)


def run(place: Path, name: str, *, path: str | None = None, **texts: str) -> str:
    env = {"PATH": path or os.environ["PATH"], "HOME": os.environ["HOME"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", text_of(name, **texts)], cwd=place, env=env, capture_output=True, timeout=WAIT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().rstrip("\n")


def captured(name: str, output: str) -> dict[str, str]:
    """What the script takes from an output."""
    call = next(c for p in SCRIPT.file.parts.values() for t in p.turns for c in t.calls if c.name == name)
    texts = dict(call.default)
    for pattern in call.capture:
        found = pattern.search(output)
        texts |= found.groupdict() if found else {}
    return texts


def hot(place: Path) -> dict[str, str]:
    return {k: v for k, v in captured("heat", run(place, "heat")).items() if re.fullmatch(r"p\d", k)}


@pytest.fixture(scope="module", params=HISTORIES, ids=lambda given: f"{given[0]} {given[1]}")
def told(request, tmp_path_factory) -> tuple[History, Path]:
    history = invented(*request.param)
    return history, history.write(tmp_path_factory.mktemp("told") / "repo")


def counted(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"


def squeezed(text: str) -> str:
    return " ".join(text.split())


# ── numbers ──


def test_files_and_lines_are_those_of_the_commit(told):
    history, place = told
    texts = {path: len(lines) for path, lines in history.files.items() if lines}
    of = {}
    for path, lines in texts.items():
        if language(path):
            of.setdefault(language(path), []).append(lines)
    top = max(of, key=lambda name: sum(of[name]))
    assert run(place, "here").split("\n") == [
        f"here: {counted(len(texts), 'text file', 'text files')}, {counted(sum(texts.values()), 'line', 'lines')}",
        f"main: {top}, {counted(sum(of[top]), 'line', 'lines')} in {counted(len(of[top]), 'file', 'files')}",
    ]


def test_the_year_is_counted_back_from_the_newest_commit_without_merges(told):
    history, place = told
    people = {commit.author.lower() for commit in history.year}
    assert len(history.year) < len(history.commits) - sum(commit.merge for commit in history.commits)
    expected = [
        f"year: {counted(len(history.year), 'commit', 'commits')} by {counted(len(people), 'person', 'people')}"
    ]
    expected += [f"path {number}: {path}" for number, path in enumerate(history.hottest(), 1)]
    assert run(place, "heat").split("\n") == expected
    assert list(hot(place).values()) == history.hottest()


def test_test_files_and_cases_are_counted_by_language(told):
    history, place = told
    files = [path for path in history.files if language(path) and is_test(path)]
    cases = sum(
        CASE[language(path)].search(line) is not None
        for path, lines in history.files.items()
        if language(path) == "Rust" or (language(path) and is_test(path))
        for line in lines
    )
    assert cases > 5
    assert run(place, "cases") == (
        f"tests: {counted(len(files), 'test file', 'test files')}, {counted(cases, 'case', 'cases')}"
    )


def test_source_commits_without_a_test_are_counted(told):
    history, place = told
    source = [commit for commit in history.year if any(is_source(path) for path in commit.changed)]
    bare = [commit for commit in source if not any(is_test(path) for path in commit.changed)]
    assert 0 < len(bare) < len(source)
    assert run(place, "untested") == f"untested: {len(bare)} of {len(source)} source commits changed no test"


def test_the_map_names_the_test_that_changed_most_often_with_each_path(told):
    history, place = told
    paths = history.hottest()
    first, *lines = run(place, "map", **{f"p{k}": path for k, path in enumerate(paths, 1)}).split("\n")
    matched = sum(history.partner(path) is not None for path in paths)
    assert first == f"matched: a test for {matched} of {len(paths)} paths"
    assert len(lines) == len(paths)
    for number, (path, line) in enumerate(zip(paths, lines, strict=True), 1):
        assert len(line) == len(f"map {number}: ") + 17
        partner = history.partner(path)
        if partner is None:
            assert squeezed(line) == f"map {number}: -"
            continue
        name, times = partner[0].rsplit("/", 1)[-1], partner[1]
        shown = name if len(name) <= 13 else f"{name[:6]}…{name[-6:]}"
        assert squeezed(line) == squeezed(f"map {number}: {shown} {times}")


def test_each_row_counts_changes_lines_missing_tests_and_people(told):
    history, place = told
    for path in history.hottest():
        told_first, row = run(place, "row1", p1=path).replace("row: ", "").split("\n")
        touching = [commit for commit in history.year if path in commit.changed]
        bare = sum(not any(is_test(other) for other in commit.changed) for commit in touching)
        people = len({commit.author.lower() for commit in touching})
        star = "*" if 2 * bare > len(touching) else ""
        numbers = f"{len(touching):,} {len(history.files[path]):,} {bare:,} {star} {people:,}"
        assert cell_width(row) == 53
        assert squeezed(row).endswith(squeezed(numbers))
        assert told_first == f"told: {counted(len(touching), 'change', 'changes')}, {bare:,} without a test"
        assert row.startswith(path.replace("\t", "?") + " ") or "…" in row


def test_markers_are_found_in_comments_and_dated_by_blame(told):
    history, place = told
    debts = history.debts()
    output = run(place, "debts")
    files = {path: [number for p, number, _ in debts if p == path] for path, _, _ in debts}
    assert output.split("\n")[0] == (
        f"debts: {counted(len(debts), 'marker', 'markers')} in {counted(len(files), 'file', 'files')}"
    )
    most = sorted(files, key=lambda path: (-len(files[path]), path))[:5]
    found = captured("debts", output)
    assert [found[f"f{k}"] for k in range(1, 6) if found[f"f{k}"]] == most
    for k, path in enumerate(most, 1):
        assert found[f"at{k}"] == "".join(f"-L {number},{number} " for number in files[path][:20])
    dated = sorted(
        (history.born(path, history.files[path][number - 1]), order, path, number)
        for order, path in enumerate(most)
        for number in files[path][:20]
    )
    ages = run(place, "ages", **{k: v for k, v in found.items() if re.fullmatch(r"(f|at)\d", k)}).split("\n")
    assert ages[0] == f"aged: {len(dated):,} dated by blame, oldest first"
    assert [line.split()[2] for line in ages[1:]] == [f"{when:%Y-%m-%d}" for when, *_ in dated[:3]]
    assert all(re.fullmatch(r"old \d: \S+  (TODO|FIXME|XXX|HACK) +\S.*:\d+", line) for line in ages[1:])


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("awk", AWKS)
def test_every_awk_says_the_same(told, awk, tmp_path):
    _, place = told
    shim = tmp_path / "awk"
    shim.write_text(f'#!/bin/sh\nexec {shutil.which(awk)} {"awk" if awk == "busybox" else ""} "$@"\n')
    shim.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    texts = hot(place) | captured("debts", run(place, "debts"))
    texts = {k: v for k, v in texts.items() if k in SLOTS}
    for name in COMMANDS:
        assert run(place, name, path=path, **texts) == run(place, name, **texts)


def test_a_receipt_run_again_after_more_commits_says_the_same(tmp_path):
    history = invented("python and go", 5, commits=40)
    place = history.write(tmp_path / "repo")
    head = captured("head", run(place, "head"))
    before = [run(place, name, rev=head["rev"]) for name in ("here", "heat", "cases", "untested", "debts")]
    (place / "new.py").write_text("# TODO: new\n")
    git(place, "add", "new.py")
    git(place, "-c", "user.name=N", "-c", "user.email=n@example.org", "commit", "-q", "-m", "new")
    assert [run(place, name, rev=head["rev"]) for name in ("here", "heat", "cases", "untested", "debts")] == before
    assert run(place, "debts") != before[-1]


# ── where something is missing ──


@pytest.mark.parametrize("kind", ["no repository", "no commit"])
def test_without_commits_every_command_says_so(kind, tmp_path):
    if kind == "no commit":
        git(tmp_path, "init", "-q", ".")
        (tmp_path / "a.py").write_text("x = 1\n")
    assert captured("head", run(tmp_path, "head")) == {"head": "no commit", "upto": "", "rev": "HEAD"}
    assert run(tmp_path, "here") == "here: left out, no commit with text in it"
    assert run(tmp_path, "heat") == "year: left out, no commits yet"
    assert run(tmp_path, "cases") == "tests: left out, no commits yet"
    assert run(tmp_path, "untested") == "untested: source commits left out, no commits yet"
    assert run(tmp_path, "debts") == "debts: no marker in a comment"
    assert run(tmp_path, "map", p1="a.py") == "matched: a test for 0 of 1 path\nmap 1: -                "
    assert run(tmp_path, "ages", f1="a.py") == "aged: not dated, blame gave no answer"


def test_a_shallow_clone_leaves_out_what_needs_history(tmp_path):
    history = invented("python and go", 6, commits=60)
    full = history.write(tmp_path / "full")
    git(tmp_path, "clone", "-q", "--depth", "3", full.as_uri(), "shallow")
    place = tmp_path / "shallow"
    assert run(place, "here") == run(full, "here")
    assert run(place, "cases") == run(full, "cases")
    here = len(git(place, "rev-list", "HEAD").split())
    assert run(place, "heat") == f"year: left out, a shallow clone has {here} commits of its history"
    assert run(place, "untested") == "untested: source commits left out, a shallow clone"
    assert run(place, "debts").split("\n") == [
        run(full, "debts").split("\n")[0],
        "ages: ages left out, in a shallow clone all lines look equally old",
    ]


def test_files_named_like_commits_and_options_change_nothing(tmp_path):
    history = invented("python and go", 7, commits=30)
    place = history.write(tmp_path / "repo")
    before = [run(place, name) for name in ("head", "here", "heat", "cases", "untested", "debts")]
    (place / "HEAD").write_text("x\n")
    (place / "--output=x").write_text("x\n")
    assert [run(place, name) for name in ("head", "here", "heat", "cases", "untested", "debts")] == before


# ── only reading ──


@pytest.mark.promise("P7")
@pytest.mark.slow
def test_a_hostile_repository_runs_nothing_and_stays_as_it_is(tmp_path):
    history = invented("python and go", 8, commits=30)
    place = history.write(tmp_path / "repo")
    canary = tmp_path / "canary"
    baited(place, canary)
    texts = {f"p{k}": path for k, path in enumerate(history.hottest(), 1)}
    before = snapshot(place)
    outputs = {name: run(place, name, **texts) for name in COMMANDS if name not in ("debts", "ages")}
    found = {k: v for k, v in captured("debts", run(place, "debts")).items() if k in SLOTS}
    ages = run(place, "ages", **found)
    assert snapshot(place) == before
    assert not canary.exists()
    plain = history.write(tmp_path / "plain")
    assert run(plain, "ages", **found) == ages
    assert "old 1: " in ages
    assert {name: run(plain, name, **texts) for name in outputs} == outputs


@pytest.mark.promise("P7")
def test_a_partial_clone_is_not_completed_from_elsewhere(tmp_path):
    place = invented("python and go", 9, commits=20).write(tmp_path / "repo")
    canary = tmp_path / "canary"
    blob = git(place, "rev-parse", "HEAD:core/engine.py").decode().strip()
    git(place, "repack", "-adq")
    git(place, "unpack-objects", "-q", given=_packed(place))
    (place / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::sh -c touch% {canary}", "protocol.ext.allow": "always",
    }.items():  # fmt: skip
        git(place, "config", key, value)
    for name in COMMANDS:
        run(place, name, p1="core/engine.py", f1="core/engine.py", at1="-L 1,1 ")
    assert not canary.exists()
    done = subprocess.run(["git", "cat-file", "-p", blob], cwd=place, capture_output=True, check=False)
    assert done.returncode
    assert canary.exists(), "the bait works where nothing forbids it"


def _packed(place: Path) -> bytes:
    """All objects in one pack; the packs themselves are taken away, so that single objects can be."""
    (pack,) = (place / ".git" / "objects" / "pack").glob("*.pack")
    data = pack.read_bytes()
    for path in pack.parent.iterdir():
        path.unlink()
    return data


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_allowed_by_its_rule_or_proven_to_only_read(name):
    texts = {f"p{k}": "it's $(odd) `path`; ~x.py" for k in range(1, 6)} | {f"at{k}": "-L 1,1 " for k in range(1, 6)}
    parsed = parse_command(text_of(name, **texts, f1="a b.py"), Path("/work"))
    assert (parsed.is_valid, parsed.doubt, parsed.variables_set, parsed.variables_read) == (True, "", set(), set())
    assert {redirect.target for redirect in parsed.redirects} == {"/dev/null"}
    rules = parse_rules(READING_RULES, Verdict.ALLOW, "demo", Path("/"))
    for command in parsed.commands:
        allowed = any(rule.matches_words(command.words) for rule in rules)
        assert allowed if command.name == "git" else prove_read_only(command) is not None, command.words[:3]
        assert command.name in {"git", "awk", "tr", "printf"}


def test_the_rules_name_the_form_that_the_script_uses():
    assert all(rule.startswith(f"Bash({GIT_COMMAND} ") for rule in READING_RULES)
    assert all(text_of(name).count("git ") == text_of(name).count(GIT_COMMAND + " ") for name in COMMANDS)


# ── the sample ──


def test_the_sample_is_what_its_maker_makes(tmp_path):
    agent_factory = runpy.run_path(str(Path(__file__).parent / "make_sample.py"))
    (tmp_path / "made").mkdir()
    newest = agent_factory["make"](tmp_path / "made")
    bundle = DEMO / "sample.bundle"
    git(tmp_path, "clone", "-q", str(bundle), "shipped")
    assert git(tmp_path / "shipped", "rev-parse", "HEAD").decode().strip() == newest
    assert bundle.stat().st_size < 60_000
    addresses = git(tmp_path / "shipped", "log", "--format=%aE").decode().split()
    assert (len(addresses), len(set(addresses))) == (40, 4)
    assert all(address.endswith("@example.org") for address in addresses)


def test_the_sample_has_something_to_say_everywhere(tmp_path):
    git(tmp_path, "clone", "-q", str(DEMO / "sample.bundle"), "sample")
    place = tmp_path / "sample"
    assert captured("head", run(place, "head"))["upto"] == " to 2026-03-14"
    assert len(hot(place)) == 5
    assert run(place, "cases") == "tests: 5 test files, 10 cases"
    assert run(place, "debts").startswith("debts: 5 markers in 3 files")
