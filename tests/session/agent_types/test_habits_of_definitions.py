"""Definitions as people write them: numbers and names in quotes, and a tab that must not give all tools."""

import pytest

from teamwright.config.agent_type_fields import parse_text_list
from tests.session.agent_types.test_definition_files import minimal, read

pytestmark = pytest.mark.finding("3F13")


def test_a_number_in_quotes_is_the_number(tmp_path):
    found = read(tmp_path, minimal(more='maxTurns: "5"\n'))
    assert found.definition is not None
    assert found.definition.max_turns == 5


def test_names_in_quotes_are_the_names(tmp_path):
    assert parse_text_list('"Read", \'Grep\', Bash(git log "x")') == ("Read", "Grep", 'Bash(git log "x")')
    found = read(tmp_path, minimal(more="tools: \"Read\", 'Grep'\n"))
    assert found.definition is not None
    assert found.definition.tools == ("Read", "Grep")


@pytest.mark.parametrize("indent", ["\t", "  ", " \t"])
@pytest.mark.parametrize("field", ["tools", "disallowedTools", "permissionMode", "allowed-tools"])
def test_an_indented_field_that_limits_an_agent_is_an_error_and_gives_nothing(tmp_path, indent, field):
    found = read(tmp_path, minimal(more=f"{indent}{field}: Read\n"))
    assert found.definition is None
    assert field in str(found.problem)


def test_a_block_of_text_may_name_fields(tmp_path):
    text = "---\nname: one\ndescription: |\n  Say\n  tools: Read\n---\nbody\n"
    assert read(tmp_path, text).definition is not None
