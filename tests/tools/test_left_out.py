"""Grep and Glob beside rules that forbid to read: such files are not read, not named, and one line says so."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from teamwright.agent.permission_gate import PermissionGate
from teamwright.agent.tool import ToolResult
from teamwright.agent.toolbox import PreparedCall, run_tool, with_gate
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Access, Mode, PermissionAnswer, Verdict
from teamwright.tools.files.glob import Glob
from teamwright.tools.files.grep import Grep
from tests.support.examples import examples
from tests.support.programs import needs

RG = shutil.which("rg") or ""
ENGINES = ["", pytest.param(RG, marks=needs("rg"))]
USUAL = ["Read(./.env)", "Read(./secrets/**)"]
SECRET = "needle-of-the-secret"


class Nobody:
    """Whoever is asked here says no."""

    async def ask(self, question):
        return PermissionAnswer(False, "nobody")


@pytest.fixture
def place(work, ctx, tmp_path):
    """A project with secrets at the top, deeper, behind links and in other letters; all of them hold the same line."""
    for name in (
        ".env",
        "secrets/key",
        "secrets/deep/er/key",
        "src/.env",
        "src/main.py",
        "src/secrets/plain",
        "data/real.pem",
        "od[d] {n}ame!/x",
    ):
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET} {name}\n")
    (work / "alias.txt").symlink_to("secrets/key")
    (work / "alias_dir").symlink_to("secrets")
    (work / "vault").symlink_to("data")
    (work.parent / "elsewhere").symlink_to(work)
    return ctx


def policy(work: Path, *deny: str, mode: Mode = Mode.DEFAULT, **scope) -> Policy:
    base = Path(os.path.realpath(work))
    rules = parse_rules(deny, Verdict.DENY, "settings", base)
    return Policy(mode, rules, PermissionScope((base,), base=base, **scope))


async def call(tool, ctx, judge: Policy, **given) -> ToolResult:
    """The call as an agent makes it: through the gate."""
    checked = tool.input_type.model_validate(given)
    gate = PermissionGate("ada", lambda: judge, Nobody(), [])
    ctx = replace(ctx, excluded_paths=gate.excluded_paths)
    prepared = PreparedCall(tool, checked, tool.access(checked, ctx), ctx, tool.summary(checked))
    return await with_gate(gate, run_tool)(prepared)


async def told(tool, ctx, judge: Policy, **given) -> str:
    result = await call(tool, ctx, judge, **given)
    assert not result.is_error, result.content
    assert isinstance(result.content, str)
    return result.content


MODES = ["content", "files_with_matches", "count"]


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", MODES)
async def test_a_search_from_the_top_leaves_denied_files_out_and_says_so(place, work, engine, mode):
    text = await told(Grep(engine), place, policy(work, *USUAL), pattern=SECRET, output_mode=mode)
    *lines, note = text.split("\n")
    assert sorted(line.split(":")[0] for line in lines) == [
        "data/real.pem",
        "od[d] {n}ame!/x",
        "src/.env",
        "src/main.py",
        "src/secrets/plain",
    ]
    assert note == "[files that rules forbid to read are left out: Read(./.env), Read(./secrets/**)]"


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.slow_after(5)
async def test_they_are_left_out_in_every_mode(place, work, engine, mode):
    text = await told(Grep(engine), place, policy(work, *USUAL, mode=mode), pattern=SECRET, output_mode="content")
    assert f"{SECRET} .env" not in text and "secrets/key" not in text and "src/main.py" in text


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("rule", "hidden"),
    [
        ("Read(.env)", [".env", "src/.env"]),
        ("Read(**/secrets/**)", ["secrets/key", "secrets/deep/er/key", "src/secrets/plain"]),
        ("Read(SECRETS/**)", ["secrets/key", "secrets/deep/er/key"]),
        ("Read(secrets/**/key)", ["secrets/key", "secrets/deep/er/key"]),
        ("Read(s*s/d?ep)", ["secrets/deep/er/key"]),
        ("Read(vault/**)", ["data/real.pem"]),
        ("Read(*.pem)", ["data/real.pem"]),
        ("Read(./od[d] {n}ame!/x)", ["od[d] {n}ame!/x"]),
        ("Grep(./src/**)", ["src/.env", "src/main.py", "src/secrets/plain"]),
        ("Read(./nothing)", []),
    ],
)
@pytest.mark.slow_after(2)
async def test_what_a_rule_names_is_left_out_and_nothing_else(place, work, engine, rule, hidden):
    everything = await told(Grep(engine), place, policy(work), pattern=SECRET)
    text = await told(Grep(engine), place, policy(work, rule), pattern=SECRET)
    left = set(everything.split("\n")) - set(text.split("\n"))
    assert left == set(hidden)
    assert ("left out" in text) is bool(hidden)


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.slow_after(1)
async def test_no_way_to_name_the_directory_shows_a_denied_file(place, work, engine):
    ways = [".", str(work), "src/..", f"{work.parent}/elsewhere", "secrets/../.", f"{work}/alias_dir/../"]
    for way in ways:
        judge = policy(work, "Read(.env)", *USUAL)
        text = await told(Grep(engine), place, judge, pattern=SECRET, path=way, output_mode="content", glob="*")
        assert "src/main.py" in text, way
        assert ".env:" not in text and "secrets/key" not in text, way


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", [".env", ".ENV", "secrets", "secrets/deep", "alias.txt", "alias_dir", "src/../.env"])
async def test_a_search_of_the_denied_file_itself_is_refused(place, work, engine, path):
    for mode in Mode:
        result = await call(Grep(engine), place, policy(work, *USUAL, mode=mode), pattern="needle", path=path)
        assert result.is_error and SECRET not in str(result.content)


@pytest.mark.promise("G2", "P7")
async def test_glob_names_no_denied_file_by_any_name(place, work):
    text = await told(Glob(), place, policy(work, *USUAL), pattern="**")
    *lines, note = text.split("\n")
    assert set(lines) == {"src/.env", "src/main.py", "src/secrets/plain", "data/real.pem", "od[d] {n}ame!/x"}
    assert "left out" in note
    assert "alias.txt" in await told(Glob(), place, policy(work), pattern="*")
    assert "No file" in await told(Glob(), place, policy(work, *USUAL), pattern="secrets/**")


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("engine", ENGINES)
async def test_rules_of_those_above_an_agent_hold_for_its_searches_too(place, work, engine):
    member = policy(work, "Read(./.env)").narrow_to(policy(work, "Read(./secrets/**)"))
    sub_agent = Policy(Mode.BUBBLE).narrow_to(member)
    for judge in (member, sub_agent):
        text = await told(Grep(engine), place, judge, pattern=SECRET)
        assert ".env" not in text.split("\n") and "secrets/key" not in text and "src/main.py" in text
        assert "Read(./.env)" in text and "Read(./secrets/**)" in text


@pytest.mark.promise("F66")
@pytest.mark.parametrize("engine", ENGINES)
async def test_private_files_are_left_out_where_everything_else_is_allowed(place, work, engine):
    state = Path(os.path.realpath(work)) / "state"
    state.mkdir()
    (state / "mail").write_text(SECRET)
    judge = policy(work, mode=Mode.BYPASS, private=(state,))
    assert "state/mail" not in await told(Grep(engine), place, judge, pattern=SECRET)
    assert "state/mail" not in await told(Glob(), place, judge, pattern="**")


@pytest.mark.promise("G2")
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_rule_that_asks_about_a_file_still_asks_before_a_search(place, work, engine):
    base = Path(os.path.realpath(work))
    asking = replace(parse_rules(USUAL, Verdict.ASK, "settings", base)[0])
    judge = Policy(rules=(asking,), scope=PermissionScope((base,), base=base))
    assert (await call(Grep(engine), place, judge, pattern=SECRET)).is_error


NAMES = st.sampled_from(["a", "b", "ab", ".a", "A", "a b", "[a]", "x{a,b}"])
PIECES = st.sampled_from(["a", "b", "ab", "*", "?", "**", ".a", "a*", "*b", "[a]", "A", "a b", "x{a,b}"])


@pytest.mark.slow
@pytest.mark.promise("G2", "P7")
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=6),
    st.lists(st.lists(PIECES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=2),
)
async def test_both_engines_leave_out_exactly_what_could_not_be_read(ctx, tmp_path_factory, paths, patterns):
    work = Path(os.path.realpath(tmp_path_factory.mktemp("any")))
    ctx.workplace.cwd = work
    files: list[Path] = []
    for path in paths:
        try:
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(SECRET)
            files.append(work / path)
        except OSError:  # another of them is a file where this one has a directory
            continue
    judge = policy(work, *(f"Read(./{pattern})" for pattern in patterns))
    may = {str(f) for f in files if judge.decide("Read", Access(reads=(f,))).verdict is Verdict.ALLOW}
    if judge.decide("Grep", Access(reads=(work,))).verdict is Verdict.DENY:
        return
    for engine in dict.fromkeys(("", RG)):
        text = await told(Grep(engine), ctx, judge, pattern=SECRET)
        shown = {str(work / line) for line in text.split("\n") if line[:1] != "[" or line.startswith("[a]")}
        assert shown - {str(work / "Nothing found in text files.")} == may
