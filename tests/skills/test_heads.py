"""Heads of skills and commands: read as people write them, and cheap whatever somebody puts there."""

import time
from itertools import pairwise
from pathlib import Path

import pytest

from teamwright.protocol.runtime_tags import split_rules
from teamwright.skills.front_matter import MAX_DEPTH, parse
from teamwright.skills.skill_definition import SkillDefinition, SkillSource, parse_definition

FILE = Path("/skills/notes/SKILL.md")


def skill(text: str, name: str = "notes") -> SkillDefinition:
    made = parse_definition(SkillSource("skill", name, FILE, FILE.parent, "yours"), text)
    assert isinstance(made, SkillDefinition), made
    return made


WHOLE = """---
name: notes
description: >
  Writes notes
  of a release.
license: MIT
compatibility: needs git
metadata:
  author: ada
  version: 1.0
allowed-tools: Read, Bash(git log:*) Grep
---
# Notes
Read the log.
"""


@pytest.mark.promise("H4")
def test_every_field_of_the_open_format_is_read():
    made = skill(WHOLE)
    assert (made.name, made.one_line) == ("notes", "Writes notes of a release.")
    assert made.allowed_tools == ("Read", "Bash(git log:*)", "Grep")
    assert (made.license, made.compatibility) == ("MIT", "needs git")
    assert made.metadata == {"author": "ada", "version": "1.0"}
    assert (made.callable_by_model, made.callable_by_user, made.runs_in_subagent) == (True, True, False)
    assert made.problems == ()


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    ("head", "line", "what"),
    [
        ("description: d", 1, "the name is missing"),
        ("name: notes", 1, "the description is missing"),
        ("name: other\ndescription: d", 2, "not that of the directory"),
        ("name: ../x\ndescription: d", 2, "cannot be a name"),
        ("name: notes\ndescription: [a]", 3, "description is not a text"),
        ("name: notes\ndescription: d\ncolour: red", 4, "colour is not a field that is known"),
        ("name: notes\ndescription: d\nhooks: {}", 4, "hooks is not used"),
        ("name: notes\ndescription: d\nmetadata: x", 4, "metadata is not a mapping"),
        ("name: notes\ndescription: d\ncontext: spoon", 4, "context is none of fork, inherit"),
        ("name: notes\ndescription: d\nuser-invocable: perhaps", 4, "neither true nor false"),
        ("name: notes\nname: notes\ndescription: d", 3, "name is there twice"),
        ("name: notes\ndescription: Use this: when asked", 3, "not YAML"),
    ],
)
def test_an_odd_field_is_told_with_file_and_line_and_is_never_fatal(head, line, what):
    made = skill(f"---\n{head}\n---\nThe text.")
    [problem] = [one for one in made.problems if what in one]
    assert problem.startswith(f"{FILE}:{line}: ")
    assert made.name == "notes" or made.name == "other"
    assert made.one_line


@pytest.mark.promise("H4")
@pytest.mark.parametrize("hint", ["[file]", "[issue-number] [priority]", "<path> [--fix]", "[a|b] {c}", '"[x] [y]"'])
def test_a_hint_is_a_text_as_people_write_it(hint):
    made = skill(f"---\nname: notes\nargument-hint: {hint}\ndescription: d\n---\nText")
    assert (made.argument_hint, made.one_line, made.problems) == (hint.strip('"'), "d", ())


@pytest.mark.promise("H4")
def test_what_is_not_quite_yaml_says_what_was_meant():
    made = skill("---\nname: notes\ndescription: Use this: when asked\nallowed-tools: Read\n---\nText")
    assert made.one_line == "Use this: when asked"
    assert made.allowed_tools == ("Read",)


@pytest.mark.promise("H4")
@pytest.mark.parametrize("text", ["Just words.", "", "---\nname: notes\nno end"])
def test_without_a_head_the_directory_names_it_and_the_text_describes_it(text):
    made = skill(text)
    assert made.name == "notes"
    assert any("front matter" in problem for problem in made.problems)


BOMBS = {
    "aliases": "a: &a [x, x]\n" + "\n".join(f"{b}: &{b} [*{a}, *{a}, *{a}]" for a, b in pairwise("abcdefghi")),
    "depth": "a: " + "[" * 30_000,
    "depth in blocks": "\n".join("  " * at + "a:" for at in range(MAX_DEPTH + 200)),
    "parts": "a: [" + "x, " * 20_000 + "]",
    "length": "a: " + "x" * 100_000,
    "a tag": "!!python/object/apply:os.system ['touch owned']",
}


@pytest.mark.promise("H4", "P6")
@pytest.mark.parametrize("name", BOMBS)
def test_a_head_that_wants_to_be_expensive_is_left_out_or_read_as_words(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    started = time.process_time()
    made = parse_definition(SkillSource("skill", "notes", FILE, FILE.parent, "yours"), f"---\n{BOMBS[name]}\n---\nText")
    assert time.process_time() - started < 10, "bounded, whatever the machine"
    assert isinstance(made, str) or name == "a tag"
    assert not (tmp_path / "owned").exists()


@pytest.mark.promise("H4")
def test_scalars_are_what_was_written():
    head = parse("---\nversion: 1.10\nwhen: 2026-01-02\nanswer: no\n---\n")
    assert head.values == {"version": "1.10", "when": "2026-01-02", "answer": "no"}


def test_rules_are_cut_outside_parentheses():
    assert split_rules("Read Bash(git add:*, git commit:*),Grep") == ["Read", "Bash(git add:*, git commit:*)", "Grep"]


@pytest.mark.finding("C1")
def test_examples_in_the_description_of_a_skill_take_no_field_along():
    made = skill(
        "---\nname: notes\ndescription: Writes notes: short\n<example>\nuser: 'one\n</example>\nassistant: done\n"
        "allowed_tools: Read\nother: x\n---\nBody.\n"
    )
    assert made.description == "Writes notes: short <example> user: 'one </example> assistant: done"
    assert made.allowed_tools == ("Read",)
