"""Built-in tools are described to models from a prepared file; a tool loads with its first call."""

import json

import pytest

from teamwright import tools
from teamwright.agent.tool import tool_schema
from teamwright.agent.tool_input import ToolInput
from teamwright.tools.built_in import ENTRIES_FILE, BuiltInTool
from teamwright.tools.generate_built_in_tools import render_entries


@pytest.mark.finding("B3")
def test_the_prepared_file_is_what_the_tools_themselves_say():
    assert ENTRIES_FILE.read_text("utf-8") == render_entries(), "run `make generated`"


@pytest.mark.parametrize("kind", tools.__all__)
def test_a_prefix_names_a_tool_in_the_same_bytes_before_and_after_it_is_loaded(kind):
    tool = type("Loaded", (getattr(tools, kind),), {"__init__": lambda self: None})()
    type(tool).__module__ = getattr(tools, kind).__module__
    assert json.dumps(tool_schema(BuiltInTool(kind, lambda: tool))) == json.dumps(tool_schema(tool))


def test_a_tool_is_constructed_once_and_with_its_first_call():
    made = []

    def make():
        made.append(tools.Glob())
        return made[-1]

    tool = BuiltInTool("Glob", make)
    assert tool.name == "Glob" and tool.schema is not None and not made
    assert tool.load() is tool.load() is made[0] and len(made) == 1
    assert issubclass(made[0].input_type, ToolInput)


def test_every_built_in_tool_has_a_module_and_an_entry():
    assert sorted(tools.MODULES) == sorted(tools.__all__) == sorted(json.loads(ENTRIES_FILE.read_bytes()))
