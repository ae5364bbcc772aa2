"""Glob and Grep: what they find, what they leave out, and that both engines of Grep answer alike."""

import asyncio
import os
import shutil
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.agent.tool import validate
from teamwright.storage.files import alternatives, compile_globs
from teamwright.tools.files.file_walk import walk
from teamwright.tools.files.glob import Glob, GlobInput
from teamwright.tools.files.grep import Grep, GrepInput, split_patterns
from tests.support.examples import examples
from tests.support.programs import needs

RG = shutil.which("rg") or ""
needs_rg = needs("rg")
ENGINES = ["", pytest.param(RG, marks=needs_rg)]


def put(work, **files: str):
    for name, content in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())


@pytest.fixture
def tree(work):
    """A repository with ignored files, a nested repository, hidden and binary files, links and line ends of Windows."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    put(
        work,
        **{
            ".gitignore": "*.log\n/build/\nnode_modules\n!keep.log\n",
            "a.py": "import os\ndef alpha(x):\n    return x\n\n\nclass Beta:\n    alpha = 1\n",
            "src/b.py": "def gamma():\n    alpha(2)\n    return '''one\ntwo'''\n",
            "src/deep/.gitignore": "secret.txt\n!special.log\n",
            "src/deep/secret.txt": "alpha hidden\n",
            "src/deep/special.log": "alpha special\n",
            "src/deep/c.ts": "export const alpha = { b: 1 };\r\nconst interface = {};\r\n",
            "src/deep/d.tsx": "alpha\n",
            ".github/ci.yml": "alpha: on\n",
            "build/out.py": "alpha built\n",
            "node_modules/m/index.js": "alpha module\n",
            "x.log": "alpha log\n",
            "keep.log": "alpha kept\n",
            "bin.dat": "alpha\0\1\2",
            "no_newline.txt": "last alpha",
            "empty.txt": "",
            "ünï.txt": "alphä ALPHA\n",
            "nested/.gitignore": "ignored_here.py\n",
            "nested/x.log": "alpha nested log\n",
            "nested/ignored_here.py": "alpha\n",
        },
    )
    subprocess.run(["git", "init", "-q", str(work / "nested")], check=True)
    (work / "link.py").symlink_to("a.py")
    (work / "loop").symlink_to(work)
    return work


async def glob(ctx, pattern, path=None):
    result = await Glob().run(GlobInput(pattern=pattern, path=path), ctx)
    assert not result.is_error, result.content
    return [line for line in result.content.split("\n") if not line.startswith(("[", "No file"))]


async def grep(ctx, engine="", **given):
    result = await Grep(engine).run(GrepInput(**given), ctx)
    assert not result.is_error, result.content
    return result.content.split("\n")


@pytest.mark.promise("H2")
async def test_glob_gives_the_newest_first_and_leaves_out_what_git_ignores(ctx, tree):
    for age, name in enumerate(["src/b.py", "a.py"]):
        os.utime(tree / name, (1000 - age, 1000 - age))
    os.utime(tree / "link.py", (500, 500), follow_symlinks=False)
    assert await glob(ctx, "**/*.py") == ["src/b.py", "a.py", "link.py"]
    assert set(await glob(ctx, "*.log")) == {"keep.log", "src/deep/special.log", "nested/x.log"}
    assert await glob(ctx, "*.{ts,tsx}", "src") != [] and await glob(ctx, "nothing.*") == []
    assert await glob(ctx, "*.yml") == [".github/ci.yml"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("src/*.py", {"src/b.py"}),
        ("src/**/*.ts", {"src/deep/c.ts"}),
        ("src/**", {"src/b.py", "src/deep/.gitignore", "src/deep/c.ts", "src/deep/d.tsx", "src/deep/special.log"}),
        ("./a.py", {"a.py"}),
        ("[!a-m]o_*.txt", {"no_newline.txt"}),
        ("src/deep/?.ts*", {"src/deep/c.ts", "src/deep/d.tsx"}),
    ],
)
async def test_patterns_of_paths(ctx, tree, pattern, found):
    assert set(await glob(ctx, pattern)) == found


async def test_a_pattern_may_be_absolute_or_lead_upwards(ctx, tree):
    assert await glob(ctx, f"{tree}/src/*.py") == ["src/b.py"]
    ctx.workplace.cwd = tree / "src"
    assert await glob(ctx, "../a.*") == [str(tree / "a.py")]
    assert Glob().access(GlobInput(pattern="/etc/**/*.conf"), ctx).reads[0].as_posix() == "/etc"


async def test_an_ignored_directory_that_is_named_is_looked_into(ctx, tree):
    assert await glob(ctx, "*.js", "node_modules") == ["node_modules/m/index.js"]


async def test_outside_of_git_nothing_is_ignored(ctx, work):
    put(work, **{".gitignore": "*.log\n", "x.log": "a"})
    assert await glob(ctx, "*.log") == ["x.log"]


@pytest.mark.promise("P6")
async def test_glob_gives_a_hundred_files_and_says_how_many_there_are(ctx, work):
    put(work, **{f"f{n:03}.txt": "" for n in range(130)})
    result = await Glob().run(GlobInput(pattern="*.txt"), ctx)
    assert result.content.count("\n") == 100 and "100 of 130" in result.content


async def test_a_directory_that_is_not_there_is_an_error(ctx, work):
    assert (await Glob().run(GlobInput(pattern="*", path="nope"), ctx)).is_error
    assert (await Grep("").run(GrepInput(pattern="x", path="nope"), ctx)).is_error


def test_the_walk_leaves_out_the_same_files_as_git(tree):
    listed_by_git = subprocess.run(
        ["git", "-C", str(tree), "ls-files", "-coz", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    expected = {name for name in listed_by_git.stdout.split("\0") if name and not name.startswith(("nested", "loop"))}
    found = {os.path.relpath(entry.path, tree) for entry in walk(tree)}
    assert {name for name in found if not name.startswith("nested")} == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.promise("H2")
@pytest.mark.slow_after(1)
async def test_grep_gives_files_lines_and_counts(ctx, tree, engine):
    for age, name in enumerate(["src/b.py", "a.py"]):
        os.utime(tree / name, (1000 - age, 1000 - age))
    assert await grep(ctx, engine, pattern="alpha", type="py") == ["src/b.py", "a.py"]
    assert await grep(ctx, engine, pattern=r"alpha\(", output_mode="content") == [
        "a.py:2:def alpha(x):",
        "src/b.py:2:    alpha(2)",
    ]
    assert await grep(ctx, engine, pattern="alpha", output_mode="count", path="a.py") == ["a.py:2"]
    lines = await grep(ctx, engine, pattern="class", output_mode="content", glob="*.py", **{"-C": 1, "-n": False})
    assert lines == ["a.py-", "a.py:class Beta:", "a.py-    alpha = 1"]
    assert (await grep(ctx, engine, pattern="nowhere"))[0].startswith("Nothing found")
    many = await grep(ctx, engine, pattern=".", output_mode="content", head_limit=3)
    assert len(many) == 4 and "head_limit" in many[-1]


CASES = [
    {"pattern": "alpha"},
    {"pattern": "ALPHA", "-i": True},
    {"pattern": "alph[aä]", "glob": "*.txt"},
    {"pattern": "alpha", "glob": "*.{ts,tsx}"},
    {"pattern": "alpha", "glob": "src/**/*.ts"},
    {"pattern": "alpha", "glob": "!*.py, !*.ts"},
    {"pattern": "alpha", "glob": "*.log"},
    {"pattern": "alpha", "type": "ts", "glob": "*.tsx"},
    {"pattern": "alpha", "path": "src"},
    {"pattern": "alpha", "path": "node_modules"},
    {"pattern": "alpha", "path": "x.log"},
    {"pattern": "^$"},
    {"pattern": r"\};$"},
    {"pattern": "alpha", "-A": 1},
    {"pattern": "alpha", "-B": 2},
    {"pattern": "alpha", "-C": 1},
    {"pattern": r"one\ntwo"},
    {"pattern": r"def.*?return", "multiline": True},
    {"pattern": r"^\s*return\b"},
    {"pattern": "[[:alpha:]]+ kept"},
    {"pattern": r"(?<name>gam)ma"},
    {"pattern": "interface = {}"},
    {"pattern": r"alpha(?=\()"},
    {"pattern": "(unclosed"},
    {"pattern": "-dash"},
]


@pytest.mark.slow_after(2)
@needs_rg
@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(f"{k}={v}" for k, v in case.items()))
async def test_both_engines_answer_alike(ctx, tree, case, mode):
    call = GrepInput(**case, output_mode=mode)
    ours, theirs = await Grep("").run(call, ctx), await Grep(RG).run(call, ctx)
    assert (ours.content, ours.is_error) == (theirs.content, theirs.is_error)


@pytest.mark.promise("P6", "F40")
async def test_an_expression_that_takes_for_ever_is_ended_and_the_loop_runs_on(ctx, work, monkeypatch):
    monkeypatch.setattr("teamwright.tools.files.grep.TIMEOUT_S", 0.7)
    put(work, **{"f": "a" * 60 + "!\n", "e": "aaaa\n"})
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    neighbour = asyncio.create_task(others())
    result = await Grep("").run(GrepInput(pattern="^(a+)+$"), ctx)
    neighbour.cancel()
    assert "ended after" in result.content and turns > 100


async def test_long_lines_and_long_answers_are_cut(ctx, work):
    put(work, **{"min.js": "x" * 5000 + "\n", "many": "needle\n" * 20_000})
    [line] = await grep(ctx, pattern="xxx", output_mode="content")
    assert len(line) < 600 and "4,500 characters more" in line
    lines = await grep(ctx, pattern="needle", output_mode="content", head_limit=20_000)
    assert "of 20000 lines" in lines[-1] and sum(map(len, lines)) < 31_000


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_broken_pattern_is_an_answer(ctx, tree, engine):
    result = await Grep(engine).run(GrepInput(pattern="(unclosed"), ctx)
    assert result.is_error and "cannot be read" in result.content
    assert "py" in (await Grep(engine).run(GrepInput(pattern="x", type="klingon"), ctx)).content


async def test_code_beside_the_searched_files_is_not_run(ctx, work, monkeypatch):
    put(work, **{"re.py": "open('ran', 'w')", "json.py": "open('ran', 'w')", "f": "needle\n"})
    monkeypatch.chdir(work)
    assert await grep(ctx, pattern="needle") == ["f"]
    assert not (work / "ran").exists()


def test_flags_may_be_given_by_either_name():
    for raw in ({"pattern": "x", "-i": "true", "-A": "3"}, {"pattern": "x", "ignore_case": True, "after": 3}):
        call = validate(Grep(), raw)
        assert isinstance(call, GrepInput) and call.ignore_case and call.after == 3


def test_braces_are_multiplied_out_within_bounds():
    assert sorted(alternatives("{a,b}/{c,d}")) == ["a/c", "a/d", "b/c", "b/d"]
    assert len(alternatives("{a,b}" * 30)) <= 201
    assert split_patterns("*.{a,b}, *.c  !d") == ["*.{a,b}", "*.c", "!d"]


@settings(max_examples=examples(150), deadline=None)
@given(st.text("ab*?/{},[]!.", max_size=12), st.text("ab/.", max_size=10))
def test_any_text_is_a_pattern_and_is_matched_in_time(pattern, path):
    started = time.process_time()
    try:
        compile_globs([pattern]).match(path)
    except Exception as problem:
        assert type(problem).__name__ in {"error", "PatternError"}
    assert time.process_time() - started < 1


@settings(max_examples=examples(80), deadline=None)
@given(st.text("ab.-_", min_size=1, max_size=8))
def test_a_name_matches_itself_at_any_depth_and_nothing_longer(name):
    matcher = compile_globs([name])
    assert matcher.match(name) and matcher.match(f"x/y/{name}") and not matcher.match(f"{name}z")


# ── an empty answer is true ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def odd_tree(work):
    """Names with brackets, tracked files below ignored patterns, links to directories, an ignored submodule."""
    put(
        work,
        **{
            ".gitignore": "lib/\nvendor/\n",
            "app/[slug]/page.tsx": "SLUG\n",
            "app/s/page.tsx": "PLAIN\n",
            "{{cookie}}/a.py": "BRACES\n",
            "front/lib/utils.ts": "TRACKED\n",
            "front/lib/other.ts": "UNTRACKED\n",
            "shared/u.ts": "LINKED\n",
            "vendor/sub/c.ts": "INNER\n",
        },
    )
    (work / "src").mkdir()
    (work / "src/shared").symlink_to("../shared")
    git = ("git", "-c", "user.name=n", "-c", "user.email=a@b.c")
    for place in (work / "vendor/sub", work):
        subprocess.run([*git, "init", "-q"], cwd=place, check=True)
        subprocess.run([*git, "add", "-A"], cwd=place, check=True)
        if place == work:
            subprocess.run([*git, "add", "-f", "front/lib/utils.ts", "vendor/sub"], cwd=place, check=True)
        subprocess.run([*git, "commit", "-qm", "i"], cwd=place, check=True)
    return work


@pytest.mark.finding("3F5")
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("app/[slug]/page.tsx", ["app/[slug]/page.tsx"]),
        ("./app/[slug]/page.tsx", ["app/[slug]/page.tsx"]),
        ("app/[slug]/**", ["app/[slug]/page.tsx"]),
        ("**/[slug]/*.tsx", ["app/[slug]/page.tsx", "app/s/page.tsx"]),
        ("app/[s]/page.tsx", ["app/s/page.tsx"]),
        ("{{cookie}}/*.py", ["{{cookie}}/a.py"]),
        ("front/**/*.ts", ["front/lib/utils.ts"]),
        ("front/lib/*.ts", ["front/lib/other.ts", "front/lib/utils.ts"]),
        ("src/shared/*.ts", ["src/shared/u.ts"]),
        ("src/shared/u.ts", ["src/shared/u.ts"]),
        ("**/c.ts", ["vendor/sub/c.ts"]),
    ],
)
async def test_glob_finds_what_is_there(odd_tree, ctx, pattern, found):
    result = await Glob().run(GlobInput(pattern=pattern), ctx)
    assert sorted(result.content.split("\n")) == found


@pytest.mark.finding("3F5")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"pattern": "SLUG", "glob": "app/[slug]/*.tsx"}, "app/[slug]/page.tsx"),
        ({"pattern": "TRACKED"}, "front/lib/utils.ts"),
        ({"pattern": "TRACKED", "type": "ts"}, "front/lib/utils.ts"),
        ({"pattern": "TRACKED", "glob": "*.ts"}, "front/lib/utils.ts"),
        ({"pattern": "INNER"}, "vendor/sub/c.ts"),
        ({"pattern": "LINKED"}, "shared/u.ts"),
    ],
)
async def test_grep_finds_what_is_there(odd_tree, ctx, engine, given, found):
    result = await Grep(engine).run(GrepInput(**given), ctx)
    assert result.content == found


@pytest.mark.finding("3F5")
@pytest.mark.parametrize("engine", ENGINES)
async def test_an_empty_answer_names_what_was_left_out_and_only_that(odd_tree, ctx, engine):
    missed = (await Glob().run(GlobInput(pattern="*.none"), ctx)).content
    grepped = (await Grep(engine).run(GrepInput(pattern="NOWHERE"), ctx)).content
    for text in (missed, grepped):
        assert "what git ignores (front/lib/, vendor/), links to directories (src/shared)" in text
    whole = {"path": "app"}
    missed = (await Glob().run(GlobInput(pattern="*.none", **whole), ctx)).content
    grepped = (await Grep(engine).run(GrepInput(pattern="NOWHERE", **whole), ctx)).content
    assert missed == f"No file matches *.none in {odd_tree / 'app'}."
    assert grepped == "Nothing found in text files."
