"""The documents of errors, exit codes and commands are as complete and exact as the tables they are about."""

import re
from pathlib import Path

import click
import pytest

from teamwright.protocol.errors import SLUGS
from teamwright.ui.cli.command_table import COMMANDS
from teamwright.ui.cli.flags import to_kebab
from teamwright.ui.cli.root import root

DOCS = Path(__file__).parents[2] / "docs"
ERRORS = (DOCS / "reference" / "errors.md").read_text()
SECTIONS = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", ERRORS, re.MULTILINE | re.DOTALL))


def test_every_slug_has_a_section_and_every_section_a_slug_in_the_order_of_the_table():
    assert re.findall(r"^## (.*)$", ERRORS, re.MULTILINE) == list(SLUGS)


@pytest.mark.parametrize("slug", list(SLUGS))
def test_a_section_says_meaning_exit_code_and_a_sample_in_the_exact_form(slug: str):
    row, section = SLUGS[slug], SECTIONS[slug]
    assert section.startswith(f"\n{row.meaning} Exit code {row.exit_code}.\n")
    sample = re.findall(r"^```(?:text)?\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)
    assert len(sample) == 1
    first, *middle, last = sample[0].splitlines()
    assert first.startswith("teamwright: ")
    assert not first.endswith(".")
    assert re.fullmatch(rf"  \[{slug}\](  \S.*)?", last)
    assert all(re.match(r"  (\S.{10}|do one of  | {11}) \S", line) for line in middle)
    assert len(sample[0].splitlines()) <= 12
    after = section[section.rindex("```") + 3 :].strip()
    assert len(after) > 40


def test_exit_codes_and_their_slugs_are_those_of_the_table():
    rows = dict(
        re.findall(r"^\| (\d+) \|.*\|(.*)\|$", (DOCS / "reference" / "exit-codes.md").read_text(), re.MULTILINE)
    )
    listed = {slug: int(code) for code, slugs in rows.items() for slug in re.findall(r"`([\w-]+)`", slugs)}
    assert listed == {slug: row.exit_code for slug, row in SLUGS.items()}
    assert set(rows) == {str(row.exit_code) for row in SLUGS.values()} | {"0"}


def visible_flags(command: click.Command) -> set[str]:
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    flags = {max(option.opts, key=len) for option in options}
    below = command.commands.values() if isinstance(command, click.Group) and command is not root else ()
    return flags.union(*map(visible_flags, below))


@pytest.mark.parametrize("name", ["teamwright", *COMMANDS])
def test_every_command_has_a_page_that_names_every_flag(name: str):
    command = root if name == "teamwright" else root.get_command(click.Context(root), name)
    assert command is not None
    page = (DOCS / "reference" / "cli" / f"{name}.md").read_text()
    assert page.startswith("# teamwright" + ("" if name == "teamwright" else f" {name}") + "\n")
    missing = {flag for flag in visible_flags(command) if not re.search(rf"(?<![\w-]){flag}(?![\w-])", page)}
    assert not missing
    loaded = [root.get_command(click.Context(root), other) for other in COMMANDS]
    known = {"--help"}.union(*(visible_flags(one) for one in (root, *loaded) if one is not None))
    named = {f"--{to_kebab(flag)}" for flag in re.findall(r"(?<![\w-])--([a-z][a-zA-Z-]+)", page)}
    assert named <= known


def test_no_page_is_about_a_command_that_is_not_there():
    assert {page.stem for page in (DOCS / "reference" / "cli").glob("*.md")} == {"teamwright", *COMMANDS}


def test_links_between_the_pages_lead_somewhere():
    for page in [
        DOCS / "reference" / "errors.md",
        DOCS / "reference" / "exit-codes.md",
        *(DOCS / "reference" / "cli").glob("*.md"),
    ]:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
