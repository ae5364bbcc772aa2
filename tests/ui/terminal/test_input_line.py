"""The input line: notes, files deep in the tree, long pastes, images by path, and the keys on `?`."""

import subprocess

import pytest

from teamwright.config.add_instruction import append_note, note_files
from teamwright.protocol.errors import TeamRefused
from teamwright.storage.paths import find_home
from teamwright.testing.model_server_replies import Answer
from teamwright.ui.terminal.line_completion import best_matches
from teamwright.ui.terminal.line_editor import PastedTexts, image_mention
from tests.ui.terminal_driver import BACKSPACE, CTRL_C
from tests.ui.test_terminal_session import all_told, at_terminal, told

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000" + "1f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
LONG = "\n".join(f"line {n} of a log" for n in range(1, 43))


def pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


@pytest.mark.finding("U6")
@pytest.mark.slow
def test_a_note_is_stored_in_the_chosen_file_and_the_lead_reads_it_with_the_next_prompt(repo, own_home):
    with at_terminal(lambda _body: "Read.", repo) as (person, server):
        person.says("# use tabs")
        person.sees("store in [u/p/l], Enter cancels:")
        person.says("")
        person.sees("nothing was stored")
        person.says("# use spaces")
        person.sees("store in [u/p/l]", "store in [u/p/l]")
        person.says("l")
        person.sees("stored in CLAUDE.local.md", "the lead reads it with your next prompt")
        person.says("# answer briefly")
        person.sees("store in", "store in", "store in")
        person.says("user")
        person.sees("stored in ", "/.teamwright/AGENTS.md", "the lead reads")
        assert server.bodies == []
        person.says("hello")
        person.sees("\nRead.")
        assert "use spaces" in all_told(server.bodies[-1]) and "answer briefly" in all_told(server.bodies[-1])
        assert "use tabs" not in all_told(server.bodies[-1])
    assert (repo / "CLAUDE.local.md").read_text() == "- use spaces\n"
    assert (own_home / ".teamwright" / "AGENTS.md").read_text() == "- answer briefly\n"
    status = subprocess.run(["git", "status", "--porcelain"], cwd=repo, capture_output=True, text=True, check=True)
    assert status.stdout == "", "the local file is kept out of git"


@pytest.mark.finding("U6")
def test_a_note_extends_the_file_that_exists_and_follows_no_link_out_of_the_repository(repo, tmp_path):
    home = find_home(str(tmp_path / "home"))
    (repo / "CLAUDE.md").write_bytes(b"Rules\r\n- old")
    (repo / "CLAUDE.md").chmod(0o640)
    _, project, local = note_files(home, repo, compat=True)
    append_note(project, "new")
    assert (repo / "CLAUDE.md").read_bytes() == b"Rules\r\n- old\r\n- new\r\n"
    assert (repo / "CLAUDE.md").stat().st_mode & 0o777 == 0o640
    outside = tmp_path / "profile.md"
    outside.write_text("mine\n")
    (repo / "CLAUDE.local.md").symlink_to(outside)
    with pytest.raises(TeamRefused, match="leads out of the repository"):
        append_note(local, "new")
    assert outside.read_text() == "mine\n"
    (repo / "CLAUDE.local.md").unlink()
    (repo / "CLAUDE.local.md").symlink_to("main.py")
    with pytest.raises(TeamRefused, match="no text"):
        append_note(local, "new")
    assert [file.scope for file in note_files(home, repo, compat=False)] == ["user", "project"]


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_tab_finds_a_tracked_file_deep_in_the_tree_and_a_missing_file_is_named(repo, tmp_path):
    deep = repo / "src" / "tools" / "inner"
    deep.mkdir(parents=True)
    (deep / "configuration.py").write_text("DEPTH = 4\n")
    subprocess.run(["git", "add", "src"], cwd=repo, check=True)
    with at_terminal(lambda body: "Seen." if "DEPTH" in told(body) else "Not seen.", repo) as (person, _):
        person.types("read @configu\t")
        person.sees("> read @src/tools/inner/configuration.py")
        person.says("")
        person.sees("\nSeen.")
        person.says("compare @configuration.py with @nowhere/else.py")
        person.sees("there is no file configuration.py", "did you mean", "@src/tools/inner/configuration.py?")
        person.sees("there is no file nowhere/else.py: the prompt was sent without it")


@pytest.mark.finding("U9")
def test_files_are_found_by_parts_of_their_names_the_best_first():
    paths = [
        "docs/config.md",
        "src/tools/config.py",
        "src/reconfigure.py",
        "config/main.py",
        "a/b/c/o_n_f_i_g.txt",
        "x.py",
    ]
    assert best_matches(paths, "config", 9) == [
        "docs/config.md",
        "src/tools/config.py",
        "src/reconfigure.py",
        "config/main.py",
        "a/b/c/o_n_f_i_g.txt",
    ]
    assert best_matches(paths, "tool/cfg", 9) == ["src/tools/config.py"]
    assert best_matches(["bad\x1b[31m.py", "bad.py"], "bad", 9) == ["bad.py"]


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_a_long_paste_is_a_placeholder_that_is_sent_whole(repo, own_home):
    with at_terminal(lambda body: f"{told(body).count('of a log')} lines arrived.", repo) as (person, server):
        person.types("explain " + pasted(LONG))
        person.until(lambda rows: any("> explain [pasted text 1: 42 lines]" in row for row in rows))
        person.says(" please")
        person.sees("42 lines arrived.")
        assert f"explain {LONG} please" in told(server.bodies[-1])
        assert "line 20 of" not in person.screen.text
        person.types(pasted("x" * 1_200))
        person.until(lambda rows: any("> [pasted text 2: 1,200 characters]" in row for row in rows))
        person.types(BACKSPACE + "none")
        person.until(lambda rows: any(row.startswith("> none") for row in rows))
        person.types(CTRL_C)
    assert "line 42 of a log please" in (own_home / ".teamwright" / "history").read_text()


@pytest.mark.finding("U9")
def test_a_placeholder_that_nobody_pasted_is_plain_text():
    texts = PastedTexts()
    short = "a\nb\nc"
    assert texts.fold(short) == short
    assert texts.expand("[pasted text 1: 42 lines]") == "[pasted text 1: 42 lines]"
    evil = "\n".join(["[pasted text 1: 6 lines]"] * 6)
    shown = texts.fold(evil)
    assert texts.expand(f"see {shown}") == f"see {evil}", "a placeholder in a pasted text is text"
    assert texts.placeholder_before(f"x {shown}") == len(shown)
    assert texts.placeholder_before(f"{shown} ") == texts.placeholder_before("x]") == 0


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_the_pasted_path_of_an_image_attaches_it(repo, tmp_path):
    picture = repo / "a shot.png"
    picture.write_bytes(PNG)

    def play(body: dict) -> str:
        return "I see it." if any(block["type"] == "image" for block in body["messages"][-1]["content"]) else "No."

    with at_terminal(play, repo, HOME=str(tmp_path / "home")) as (person, _):
        person.types("what is this " + pasted(str(picture).replace(" ", "\\ ")))
        person.until(lambda rows: any('> what is this @"a shot.png"' in row for row in rows))
        person.says("")
        person.sees("I see it.")


@pytest.mark.finding("U9")
def test_a_path_is_an_image_in_each_form_in_which_terminals_paste_it(tmp_path):
    (tmp_path / "one.JPG").write_bytes(b"")
    (tmp_path / "two words.webp").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("")
    assert image_mention(f"{tmp_path}/one.JPG\n", tmp_path) == "@one.JPG "
    for form in (
        f"'{tmp_path}/two words.webp'",
        f"{tmp_path}/two\\ words.webp",
        f"file://{tmp_path}/two%20words.webp",
        "two words.webp",
    ):
        assert image_mention(form, tmp_path) == '@"two words.webp" '
    for other in ("notes.txt", "missing.png", "one.JPG\none.JPG", "", "x" * 5_000 + ".png"):
        assert image_mention(other, tmp_path) == ""


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_an_image_for_a_model_without_images_is_refused_by_a_sentence(repo, own_home):
    (repo / "shot.png").write_bytes(PNG)
    (own_home / ".teamwright").mkdir(parents=True, exist_ok=True)
    (own_home / ".teamwright" / "settings.json").write_text(
        '{"models": {"anthropic/claude-sonnet-5-5": {"images": false}}}'
    )
    with at_terminal(lambda _body: "Read.", repo) as (person, server):
        person.says("what is on @shot.png")
        person.sees("takes no images", "/model NAME")
        assert server.bodies == []


@pytest.mark.finding("U9")
def test_a_question_mark_on_an_empty_line_shows_the_keys(repo, tmp_path):
    with at_terminal(lambda _body: "Read.", repo, HOME=str(tmp_path / "home")) as (person, server):
        person.types("?")
        person.sees("Shift-Tab", "Ctrl-R", "?  ", "on an empty line shows these keys")
        person.types("why?")
        person.until(lambda rows: any(row.startswith("> why?") for row in rows))
        assert server.bodies == []


@pytest.mark.finding("U9")
def test_your_own_commands_and_typos_work_at_a_question_and_a_path_is_an_answer(repo, tmp_path):
    skill = tmp_path / "home" / ".claude" / "commands"
    skill.mkdir(parents=True)
    (skill / "tidy.md").write_text("Tidy up.")

    def play(body: dict) -> Answer | str:
        if "tool_result" in str(body["messages"]):
            return f"Chosen: {'tmp' if '/tmp' in all_told(body) else 'nothing'}."
        question = {"question": "Where?", "header": "Where", "options": []}
        return Answer(tools=[("AskUserQuestion", {"questions": [question]})])

    with at_terminal(play, repo, HOME=str(tmp_path / "home")) as (person, _):
        person.says("ask me")
        person.sees("Where?", "answer:")
        person.says("/membres")
        person.sees("did you mean /members?", "Where?", "answer:")
        person.says("/tmp")
        person.sees("Chosen: tmp.")
