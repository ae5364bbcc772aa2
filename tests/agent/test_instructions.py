"""Instructions: who is read, in which order, how often, and where a repository's files may lead."""

import os
from pathlib import Path

import pytest

from teamwright.agent.instructions import (
    MAX_CHARS,
    MAX_TOTAL,
    NestedInstructions,
    SessionInstructions,
    load_instructions,
    outside_texts,
)


@pytest.fixture
def place(tmp_path, own_home):
    """A project below which the agent works, and a directory outside it."""
    for name in ("project/src/deep", "outside"):
        (tmp_path / name).mkdir(parents=True)
    return Path(os.path.realpath(tmp_path))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def texts(place: Path, below: str = "", *, trusted: bool = False, compat: bool = True) -> list[str]:
    project = place / "project"
    home = Path(os.environ["TEAMWRIGHT_HOME"])
    outside = outside_now(project, compat) if trusted else frozenset[str]()
    return [one.text.strip() for one in load_instructions(project / below, project, home, compat, outside)]


def outside_now(project: Path, compat: bool = True) -> frozenset[str]:
    """Return what a person trusts who trusts the repository as it is."""
    return frozenset(str(text) for _, text in outside_texts(project, compat))


@pytest.mark.promise("H4")
def test_the_user_comes_first_then_root_to_leaf_and_local_last(place):
    write(Path.home() / ".teamwright" / "AGENTS.md", "user")
    write(Path.home() / ".claude" / "CLAUDE.md", "user of the other product")
    for name in ("", "src/", "src/deep/"):
        for file in ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"):
            write(place / "project" / f"{name}{file}", f"{name}{file}")
    assert texts(place, "src") == [
        "user",
        "user of the other product",
        "AGENTS.md",
        "CLAUDE.md",
        "src/AGENTS.md",
        "src/CLAUDE.md",
        "CLAUDE.local.md",
        "src/CLAUDE.local.md",
    ]
    assert texts(place, "src", compat=False) == ["user", "AGENTS.md", "src/AGENTS.md"]


@pytest.mark.promise("H4")
@pytest.mark.parametrize("how", ["import", "symbolic link", "hard link", "copy", "mutual import"])
def test_a_text_that_is_reached_twice_is_given_once(place, how):
    agents = write(place / "project/AGENTS.md", "@CLAUDE.md the text" if how == "mutual import" else "the text")
    claude = place / "project/CLAUDE.md"
    match how:
        case "import" | "mutual import":
            write(claude, "@AGENTS.md\n")
        case "symbolic link":
            claude.symlink_to(agents)
        case "hard link":
            os.link(agents, claude)
        case _:
            write(claude, "the text\n\n")
    assert len(texts(place)) == 1
    assert "the text" in texts(place)[0]


@pytest.mark.promise("H4")
def test_imports_are_read_where_they_stand_and_not_in_code(place):
    write(
        place / "project/AGENTS.md",
        "See @docs/a.md, and (not `@docs/code.md`), mail to x@docs/mail.md or @nobody.\n"
        "```\n@docs/fence.md\n```\n~~~~\n```\n@docs/fence.md\n~~~\n~~~~\n@./docs/b.md.\n",
    )
    for name in ("a", "b", "code", "fence", "mail"):
        write(place / f"project/docs/{name}.md", name)
    assert texts(place)[1:] == ["a", "b"]


@pytest.mark.promise("H4")
def test_imports_of_imports_end_after_five(place):
    for depth in range(9):
        write(place / f"project/{depth}.md", f"level {depth} @{depth + 1}.md")
    write(place / "project/AGENTS.md", "level - @0.md")
    assert [text.split()[1] for text in texts(place)] == ["-", "0", "1", "2", "3", "4"]


OUTWARD = [
    "@../outside/secret.md",
    "@{outside}/secret.md",
    "@~/secret.md",
    "@link/secret.md",
    "@linked.md",
    "@sub/../../outside/secret.md",
]


@pytest.mark.promise("K1", "P7")
@pytest.mark.parametrize("how", OUTWARD)
def test_before_trust_an_import_does_not_leave_the_repository_by_real_path(place, how):
    project = place / "project"
    write(place / "outside/secret.md", "SECRET")
    write(Path.home() / "secret.md", "SECRET")
    (project / "link").symlink_to(place / "outside")
    (project / "linked.md").symlink_to(place / "outside/secret.md")
    (project / "sub").mkdir()
    write(project / "AGENTS.md", "see " + how.format(outside=place / "outside"))
    assert len(texts(place)) == 1
    assert texts(place, trusted=True)[1:] == ["SECRET"]


@pytest.mark.promise("K1", "P7")
def test_before_trust_the_file_itself_does_not_lead_out_either(place):
    write(place / "outside/AGENTS.md", "SECRET")
    (place / "project/AGENTS.md").symlink_to(place / "outside/AGENTS.md")
    assert texts(place) == []
    assert texts(place, trusted=True) == ["SECRET"]


@pytest.mark.promise("K1", "P7")
@pytest.mark.parametrize("file", ["AGENTS.md", "src/AGENTS.md", ".claude/rules/new.md", "CLAUDE.local.md"])
def test_trust_in_instructions_is_no_trust_in_imports_that_agents_add_later(place, file):
    project = place / "project"
    write(place / "outside/style.md", "STYLE")
    write(place / "outside/private.md", "SECRET")
    write(project / "AGENTS.md", "@../outside/style.md")
    trusted = outside_now(project)
    write(project / file, f"@{place}/outside/style.md @{place}/outside/private.md")
    session = SessionInstructions.load(project / "src", project, place / "home", True, trusted)
    initial = [one.text for one in session.initial]
    told = session.nested().text_for(project / "src/deep/x.py")
    assert "STYLE" in initial and "SECRET" not in initial and "SECRET" not in told


@pytest.mark.promise("K1", "P7")
def test_a_text_that_names_further_texts_outside_is_trusted_with_them(place):
    write(place / "project/AGENTS.md", "@../outside/one.md")
    write(place / "outside/one.md", "ONE @two.md")
    write(place / "outside/two.md", "TWO")
    assert texts(place, trusted=True) == ["@../outside/one.md", "ONE @two.md", "TWO"][1:]


@pytest.mark.promise("P7")
@pytest.mark.parametrize("how", ["@.env", "link"])
def test_a_file_that_a_rule_withholds_is_no_instruction(place, how):
    project = place / "project"
    write(project / ".env", "TOKEN")
    for directory in (project, project / "src"):
        if how == "link":
            (directory / "AGENTS.md").symlink_to(project / ".env")
        else:
            write(directory / "AGENTS.md", f"text of {directory.name} @{project}/.env")
    session = SessionInstructions.load(project, project, place / "home", True, frozenset())

    def withholds(file: Path) -> bool:
        return os.path.basename(os.path.realpath(file)) == ".env"

    initial = [one.text for one in session.initial_for(withholds)]
    told = session.nested().text_for(project / "src/x.py", withholds)
    assert initial == ([] if how == "link" else [f"text of project @{project}/.env"])
    assert "TOKEN" not in told and ("text of src" in told) is (how == "@.env")


@pytest.mark.promise("K1", "F66", "P7")
@pytest.mark.parametrize("name", ["id_rsa", ".env", "settings.json", "key.pem"])
def test_a_trusted_repository_imports_no_keys_from_outside(place, name):
    write(place / "outside" / name, "SECRET")
    write(place / "project/AGENTS.md", f"@../outside/{name} and so on")
    (place / "project/CLAUDE.md").symlink_to(place / "outside" / name)
    assert not [text for text in texts(place, trusted=True) if "SECRET" in text]


def test_the_users_own_file_may_import_from_anywhere(place):
    write(place / "outside/mine.cfg", "mine")
    write(Path.home() / ".teamwright" / "AGENTS.md", f"@{place}/outside/mine.cfg")
    assert texts(place) == ["mine"]


def test_a_file_that_is_too_long_is_cut_and_says_so(place):
    write(place / "project/AGENTS.md", "x" * (MAX_CHARS + 1))
    (found,) = load_instructions(place / "project", place / "project", place / "home", True)
    assert len(found.text) < MAX_CHARS + 300
    assert "was cut at 40,000 of 40,001 characters" in found.warning
    assert found.warning in found.text


def test_all_files_together_are_bounded(place):
    for number in range(9):
        write(place / f"project/{number}.md", str(number) * MAX_CHARS)
    write(place / "project/AGENTS.md", " ".join(f"@{number}.md" for number in range(9)))
    found = load_instructions(place / "project", place / "project", place / "home", True)
    assert sum(len(one.text) for one in found) < MAX_TOTAL + MAX_CHARS + 9 * 300
    assert "left out" in found[-1].warning


@pytest.mark.promise("P7")
def test_what_is_no_text_file_is_passed_over(place):
    project = place / "project"
    os.mkfifo(project / "AGENTS.md")
    (project / "CLAUDE.md").mkdir()
    (project / "src/AGENTS.md").write_bytes(b"\x00\x01")
    (project / "src/CLAUDE.md").symlink_to("/dev/zero")
    assert texts(place, "src") == []


@pytest.mark.promise("H4")
def test_a_deeper_file_is_told_once_when_its_directory_is_first_touched(place):
    project = place / "project"
    write(project / "AGENTS.md", "root")
    write(project / "src/AGENTS.md", "of src")
    write(project / "src/deep/CLAUDE.md", "of deep")
    known = load_instructions(project, project, place / "home", True)
    nested = NestedInstructions(project, project, known, True)
    assert nested.text_for(project / "x.py") == ""
    told = nested.text_for(project / "src/deep/x.py")
    assert told.index("of src") < told.index("of deep")
    assert str(project / "src/AGENTS.md") in told
    assert nested.text_for(project / "src/deep/y.py") == ""
    assert nested.text_for(project / "src/x.py") == ""
    other = NestedInstructions(project, project, known, True)
    assert "of src" in other.text_for(project / "src/x.py")
    assert "of deep" in other.text_for(project / "src/deep/x.py")


@pytest.mark.promise("P7")
def test_a_directory_outside_the_repository_tells_nothing(place):
    project = place / "project"
    write(place / "outside/AGENTS.md", "SECRET")
    (project / "link").symlink_to(place / "outside")
    nested = NestedInstructions(project, project, [], True)
    assert nested.text_for(project / "link/x.py") == ""
    assert nested.text_for(place / "outside/x.py") == ""


@pytest.mark.finding("C6")
def test_instructions_and_rules_in_the_folder_of_the_other_product_are_read_after_those_beside_it(place):
    project, theirs = place / "project", Path.home() / ".claude"
    write(theirs / "rules/manners.md", "mine, always")
    write(theirs / "rules/python.md", "---\npaths: '**/*.py'\n---\nmine, of Python")
    write(project / "CLAUDE.md", "beside")
    write(project / ".claude/CLAUDE.md", "in the folder")
    write(project / ".claude/rules/style.md", "always")
    write(project / ".claude/rules/deep/er.md", "---\ndescription: no limit\n---\nalso always")
    write(project / ".claude/rules/api.md", "---\npaths:\n  - src/deep/**/*.ts\n  - *.md\n---\nof the api")
    write(project / ".claude/rules/notes.txt", "no rule")
    write(project / "src/.claude/CLAUDE.md", "in the folder of src")
    always = ["mine, always", "beside", "in the folder", "also always", "always"]
    assert texts(place) == always
    assert texts(place, "src") == [*always, "in the folder of src"]
    assert texts(place, compat=False) == []
    known = load_instructions(project, project, Path(os.environ["TEAMWRIGHT_HOME"]), True)
    nested = NestedInstructions(project, project, known, True)
    assert nested.text_for(project / "x.txt") == ""
    assert "mine, of Python" in nested.text_for(project / "x.py")
    assert nested.text_for(project / "y.py") == ""
    assert "in the folder of src" in nested.text_for(project / "src/x.ts")
    told = nested.text_for(project / "src/deep/er/x.ts")
    assert told.endswith("of the api") and "src/deep/**/*.ts, *.md" in told
    assert nested.text_for(project / "README.md") == ""  # the same rule again


@pytest.mark.finding("C6")
@pytest.mark.parametrize(
    ("paths", "touched", "is_about"),
    [
        ("paths: src/**/*.{ts,tsx}", "src/a/b.tsx", True),
        ('paths: ["src/*.py", "docs/**"]', "docs/a/b", True),
        ("paths:\n- '**/*.go'\n- \"**/go.mod\"", "go.mod", True),
        ("paths: **/*.ts", "a/b.ts", True),
        ("paths: *.md", "deep/x.md", False),
        ("paths: /src/**", "src/x", True),
        ("paths: src/**", "../outside/src/x", False),
    ],
)
def test_paths_of_a_rule_are_read_in_every_form_that_people_write(place, paths, touched, is_about):
    project = place / "project"
    write(project / ".claude/rules/one.md", f"---\n{paths}\n---\nTHE RULE")
    assert texts(place) == []
    nested = NestedInstructions(project, project, [], True)
    assert ("THE RULE" in nested.text_for(project / touched)) is is_about


@pytest.mark.finding("C6")
def test_a_broken_pattern_harms_no_other_rule_and_a_loop_of_links_ends(place):
    project = place / "project"
    write(project / ".claude/rules/bad.md", "---\npaths: src/[z-a].py\n---\nbad")
    write(project / ".claude/rules/good.md", "---\npaths: src/**\n---\ngood")
    (project / ".claude/rules/loop").symlink_to(project / ".claude/rules")
    write(place / "outside/secret.md", "outside")
    (project / ".claude/rules/out.md").symlink_to(place / "outside/secret.md")
    nested = NestedInstructions(project, project, [], True)
    assert nested.text_for(project / "src/x.py").endswith("good")
    assert any("cannot be read" in one.reason and one.verdict == "broken" for one in nested.result.skipped)
    assert any(one.verdict == "needs trust" for one in nested.result.skipped)
    assert texts(place) == []
    assert texts(place, trusted=True) == ["outside"]


@pytest.mark.finding("3F11")
def test_imports_in_comments_are_not_followed(place):
    for name in ("one", "two", "three", "four"):
        write(place / f"project/{name}.md", f"text of {name}")
    write(place / "project/AGENTS.md", "<!-- @one.md\n@two.md --> @three.md\n`<!--` @four.md\n")
    assert texts(place)[1:] == ["text of three", "text of four"]
