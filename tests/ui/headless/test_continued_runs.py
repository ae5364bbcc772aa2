"""How a headless run goes on, in every spelling that somebody tries, and what is said to those that cannot work."""

import pytest

from teamwright.testing.model_server import LoopbackModel
from tests.ui.program import Program, error_of


@pytest.fixture
def program(tmp_path, repo):
    with LoopbackModel.in_thread(lambda body: f"Heard {len(body['messages'])}.") as server:
        made = Program(repo, tmp_path / "home", server.url)
        assert made.run("-p", "first words").returncode == 0
        yield made


def session(program: Program) -> str:
    [path] = program.home.glob("projects/*/*.jsonl")
    return path.stem[:8]


@pytest.mark.slow_after(1)
@pytest.mark.promise("K14")
@pytest.mark.parametrize(
    "words",
    [
        ("-c", "-p", "Go on."),
        ("-p", "Go on.", "-c"),
        ("-p", "-c", "Go on."),
        ("-r", "ID", "-p", "Go on."),
        ("-p", "Go on.", "--resume=ID"),
        ("resume", "ID", "-p", "Go on."),
        ("resume", "ID", "Go on.", "-p"),
        ("resume", "-p", "ID", "Go on."),
    ],
    ids=" ".join,
)
def test_the_words_go_to_the_session_that_is_meant(program, words):
    done = program.run(*(word.replace("ID", session(program)) for word in words))
    assert (done.returncode, done.stdout) == (0, "Heard 3.\n"), done.stderr


@pytest.mark.slow
@pytest.mark.promise("K14")
@pytest.mark.parametrize("words", [("resume", "-p", "Go on."), ("resume", "Go on.", "-p"), ("-r", "Go on.", "-p")])
def test_a_prompt_where_a_name_should_be_is_told_where_it_goes(program, words):
    done = program.run(*words)
    slug, lines = error_of(done)
    assert (done.returncode, slug) == (2, "unknown-session")
    assert "the newest session: teamwright -c -p 'Go on.'" in "\n".join(lines)
    assert "another: teamwright resume ID -p 'Go on.'" in "\n".join(lines)
    assert program.run("-c", "-p", "Go on.").stdout == "Heard 3.\n", "nothing was sent before"


@pytest.mark.slow_after(1)
@pytest.mark.promise("K14")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("resume", "ID", "-p", "Go", "on."), 'teamwright resume ID -p "Go on."'),
        (("resume", "-c", "-p", "Go on."), 'teamwright -c [-p] "…"'),
        (("resume", "--continue", "Go on."), 'teamwright -c [-p] "…"'),
        (("resume", "-p"), 'teamwright resume ID -p "…"'),
        (("resume",), 'teamwright -c -p "…" takes the newest'),
        (("-c", "-p"), 'teamwright resume ID -p "…"'),
    ],
)
def test_what_cannot_go_on_says_what_to_type(program, words, says):
    own = session(program)
    done = program.run(*(word.replace("ID", own) for word in words))
    slug, lines = error_of(done)
    assert (done.returncode, slug) == (2, "usage")
    assert any(line.strip().endswith(says.replace("ID", own)) for line in lines), lines


@pytest.mark.promise("K14")
@pytest.mark.slow
def test_paths_begin_where_dash_c_says_the_home_s_too(program, tmp_path):
    program.env["TEAMWRIGHT_HOME"] = ""
    (program.cwd / "sub").mkdir()
    done = program.run("-C", "sub", "-p", "hi", "--home", "kept", "--report", "r.md")
    assert (done.returncode, done.stdout) == (0, "Heard 1.\n"), done.stderr
    assert (program.cwd / "sub" / "kept" / "projects").is_dir() and (program.cwd / "sub" / "r.md").is_file()
    assert not (program.cwd / "kept").exists()
    _, lines = error_of(program.run("-C", "sub", "resume", "nothing", "-p", "--home", "kept"))
    assert f"teamwright --home {program.cwd}/sub/kept sessions --all" in lines[-2]
