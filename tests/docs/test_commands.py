"""Every command that a document shows is given here, as it stands there, and ends as the page says."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from teamwright.ui.cli.root import WORDS_KEY, root
from tests.docs.pages import ROOT, Block, blocks, inline_commands
from tests.docs.places import PLACES, Place, at_work, quiet
from tests.support.waits import WAIT_S

SHOWN = [block for block in blocks() if block.commands and block.remark("step") is None]
RUN = [block for block in SHOWN if not block.not_run]
ELSEWHERE = [block for block in RUN if block.place != "while a team works"]
ELSEWHERE.sort(key=lambda block: (block.language, "make" in block.text))
"""Transcripts come first: they show what is there, and the others begin sessions."""
AT_WORK = [block for block in RUN if block.place == "while a team works"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with quiet(tmp_path_factory.mktemp("docs")) as place:
        yield place


def gives(place: Place, block: Block) -> list[str]:
    """Give the commands of a block, one after the other; what each wrote."""
    written: list[str] = []
    for number, command in enumerate(block.commands, 1):
        done = place.give(command)
        promised = block.exit_code if number == len(block.commands) else 0
        assert done.code == promised, f"{command}\n{done}"
        assert "[usage]" not in done.err, f"{command}\n{done}"
        assert "Traceback" not in done.err, f"{command}\n{done}"
        written.append(done.out)
    return written


def looks_alike(block: Block, written: str) -> bool:
    """Whether what came has the words with which the first line and each table of the transcript begin."""
    shown = re.sub(r"^\$ .*\n", "", block.text)
    begin = {re.match(r"[A-Za-z]*", part.lstrip("\n"))[0] for part in shown.split("\n\n")} - {""}
    return bool(begin) and all(re.search(rf"^{word}\b", written, re.MULTILINE) for word in begin)


@pytest.mark.slow_after(1)
@pytest.mark.promise("K14")
@pytest.mark.parametrize("block", ELSEWHERE, ids=lambda block: block.id)
def test_the_commands_of_a_block_run_as_they_stand(project: Place, block: Block):
    project.set_up, project.person = [], block.place == "at a terminal"
    written = gives(project, block)
    assert block.language != "console" or looks_alike(block, written[0]), written[0]


@pytest.mark.slow_after(1)
@pytest.mark.promise("K14")
@pytest.mark.parametrize("block", AT_WORK, ids=lambda block: block.id)
def test_the_commands_of_a_block_run_beside_a_team_at_work(tmp_path: Path, block: Block):
    with at_work(tmp_path) as place:
        written = gives(place, block)
    assert block.language != "console" or looks_alike(block, written[0]), written[0]


def test_every_place_that_a_page_names_is_one_and_few_blocks_are_not_run():
    assert {block.place for block in SHOWN} <= set(PLACES)
    left = {block.id: block.not_run for block in SHOWN if block.not_run}
    assert all(len(str(reason)) > 20 for reason in left.values())
    assert len(left) <= 3
    assert len(RUN) >= 10


# ── commands in sentences and tables: every word of them is one that the program knows ───────────────────────────────


def understood(words: list[str]) -> tuple[str, ...]:
    """Read words as the program reads them, without doing anything; gives those that would be a prompt."""
    try:
        ctx = root.make_context("teamwright", words)
        asked = tuple(ctx.meta.get(WORDS_KEY, ()))
        command: click.Command = root
        rest = [*ctx._protected_args, *ctx.args]
        while isinstance(command, click.Group) and rest:
            name, found, rest = command.resolve_command(ctx, rest)
            assert found, name
            command, ctx = found, found.make_context(name, rest, parent=ctx)
            rest = [*ctx._protected_args, *ctx.args] if isinstance(command, click.Group) else []
    except (click.MissingParameter, click.BadOptionUsage, click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
        return ()  # a mention of a command or flag without its arguments, or `--help`
    return asked


PROSE = [(page, text) for page, text in inline_commands() if text.startswith("teamwright")]
MADE = sorted({text for _, text in inline_commands() if text.startswith("make")})


def test_there_are_commands_in_sentences():
    assert len(PROSE) > 50
    assert MADE


@pytest.mark.parametrize(("page", "text"), PROSE, ids=[f"{page}: {text}" for page, text in PROSE])
@pytest.mark.slow_after(55)
def test_a_command_in_a_sentence_is_understood(page: str, text: str):
    words = shlex.split(re.split(r" (?:\||>>?) ", text)[0])[1:]
    for prompt in understood(words):
        assert " " in prompt or prompt == "…", f"{prompt!r} is no command, and a prompt has more than one word"


def test_a_word_that_is_no_flag_and_no_command_would_be_noticed():
    with pytest.raises(click.UsageError):
        understood(["cost", "--sinse", "10m"])
    assert understood(["requsts"]) == ("requsts",)


@pytest.mark.parametrize("text", MADE)
def test_a_make_target_in_a_sentence_is_one(text: str):
    if text in {"make docs", "make NAME", 'make "$X"'}:
        return  # examples of somebody's own target, in rules for commands
    done = subprocess.run(
        ["make", "-n", *shlex.split(text)[1:]], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
