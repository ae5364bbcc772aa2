"""A team file is read strictly, and what is wrong is told with its line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.config.team_file import line_of, parse_definition, read_definition
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.usage import Budget

PATH = Path("/somewhere/.teamwright/team.toml")

WHOLE = '''
# The team of this repository.
[team]
check = "make test"
plans = "human"
permissions = "lead"
members = 4
budget = { usd = 5.0, tokens = 2_000_000 }

[roles.api]
description = "The HTTP interface."
model = "haiku"
mode = "acceptEdits"
prompt = """
Keep answers stable.
model = "not a key: it stands in a text"
"""
owns = ["src/api/**", "tests/api/**"]
writes = ["docs/api.md"]
max_turns = 40
budget = { tokens = 400_000 }

[roles."code_reader"]
type = "Explore"
'''


def test_a_whole_file_is_read():
    found = parse_definition(WHOLE, PATH)
    assert (found.check, found.plans, found.permissions, found.members) == ("make test", "human", "lead", 4)
    assert found.budget == Budget(usd=5.0, tokens=2_000_000)
    api = found.roles["api"]
    assert (api.type, api.model, api.mode, api.max_turns) == ("general-purpose", "haiku", "acceptEdits", 40)
    assert (api.owns, api.writes) == (("src/api/**", "tests/api/**"), ("docs/api.md",))
    assert api.budget == Budget(tokens=400_000)
    assert "Keep answers stable." in api.prompt
    reader = found.role("Code_Reader")
    assert reader is not None
    assert (reader.type, reader.writes, reader.owns) == ("Explore", None, ())


def test_without_a_file_there_is_no_definition_and_an_empty_one_says_nothing(tmp_path):
    assert read_definition(tmp_path / "team.toml") is None
    (tmp_path / "team.toml").write_text("")
    found = read_definition(tmp_path / "team.toml")
    assert found is not None
    assert (found.roles, found.check) == ({}, None)


WRONG = [
    ("[team]\nchek = 'x'", "line 2, team.chek", "did you mean check?"),
    ("[teem]", "line 1, teem", "did you mean team?"),
    ("\n[roles.api]\nmodell = 'x'\n", "line 3, roles.api.modell", "did you mean model?"),
    ("[roles.api]\nmode = 'bypassPermissions'", "line 2, roles.api.mode", "must be one of default, acceptEdits"),
    ("[roles.api]\nmode = 'acceptEdit'", "line 2, roles.api.mode", "did you mean acceptEdits?"),
    ("[roles.api]\ntype = 'Exploer'", "line 2, roles.api.type", "did you mean Explore?"),
    ("[roles.api]\nowns = ['/etc/**']", "line 2, roles.api.owns", "below the repository"),
    ("[roles.api]\nowns = ['../x']", "line 2, roles.api.owns", "below the repository"),
    ("[roles.api]\nowns = 'src'", "line 2, roles.api.owns", "a list of path patterns"),
    ("[roles.api]\nbudget = { token = 5 }", "line 2, roles.api.budget.token", "did you mean tokens?"),
    ("[roles.api]\nbudget = { tokens = -5 }", "line 2, roles.api.budget", "above 0, not -5"),
    ("[roles.api]\nbudget = 5", "line 2, roles.api.budget", "a table of caps"),
    ("[roles.api.budget]\ntokens = true", "line 1, roles.api.budget", "a whole number above 0"),
    ("[roles.api]\nmax_turns = 0", "line 2, roles.api.max_turns", "a whole number from 1 on"),
    ("[roles.lead]\nmodel = 'x'", "line 1, roles.lead", "the lead is not a role"),
    ("[roles.Explore]\nmodel = 'x'", "line 1, roles.Explore", "an agent type already"),
    ("[roles.a]\n[roles.A]", "line 2, roles.A", "defined twice"),
    ("[roles.'a/b']\nmodel = 'x'", "line 1, roles.a/b", ""),
    ("roles = 5", "line 1, roles", "must be a table"),
    ("[team]\ncheck = ''", "line 2, team.check", "a text"),
    ("x = [", "", "team file"),
    ("[team]\nmembers = 2.5", "line 2, team.members", "a whole number"),
    ('[roles.a]\ndisallowed_tools = ["Bsh"]', "line 2, roles.a.disallowed_tools", "did you mean Bash?"),
    ('[roles.a]\ntools = ["Bash(git:*)"]', "line 2, roles.a.tools", "whole tools are named here"),
    ("[team]\nbudget = { dollars = 1 }", "line 2, team.budget", "not known here"),
    ("[team]\n[roles.a\n", "line 2", "Expected ']'"),
]


@pytest.mark.parametrize(("text", "at", "says"), WRONG)
def test_what_is_wrong_is_told_with_file_line_and_what_was_meant(text, at, says):
    with pytest.raises(CannotStart) as caught:
        parse_definition(text, PATH)
    told = caught.value.render()
    assert str(PATH) in told
    assert at in told
    assert says in told


def test_a_file_that_is_no_text_is_told_with_its_line(tmp_path):
    (tmp_path / "team.toml").write_bytes(b"[team]\n# \xff\n")
    with pytest.raises(CannotStart) as caught:
        read_definition(tmp_path / "team.toml")
    assert "it is not UTF-8" in caught.value.render()
    assert "line 2" in caught.value.render()


@given(st.text(max_size=200))
def test_any_text_is_a_definition_or_an_error_with_a_file(text):
    try:
        parse_definition(text, PATH)
    except CannotStart as problem:
        assert str(PATH) in problem.render()


@given(st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=6, unique=True), st.data())
def test_the_line_of_a_key_is_where_it_stands(names, data):
    lines = [line for name in names for line in (f"[roles.{name}]", "# note", f'model = "{name}"')]
    chosen = data.draw(st.sampled_from(names))
    assert line_of("\n".join(lines), ["roles", chosen, "model"]) == lines.index(f'model = "{chosen}"') + 1
    assert line_of("\n".join(lines), ["roles", chosen, "mode"]) == lines.index(f"[roles.{chosen}]") + 1
