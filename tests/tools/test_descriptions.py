"""What models are told of these tools is short: it is paid for with every call of every member."""

import json

import pytest

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.tool import tool_schema
from teamwright.tools.files.edit import Edit
from teamwright.tools.files.glob import Glob
from teamwright.tools.files.grep import Grep
from teamwright.tools.files.notebook_edit import NotebookEdit
from teamwright.tools.files.read import Read
from teamwright.tools.files.write import Write
from teamwright.tools.shell.bash import Bash
from teamwright.tools.web_fetch import WebFetch

TOOLS = [Bash(BackgroundJobs()), Read(), Write(), Edit(), NotebookEdit(), Glob(), Grep(), WebFetch()]
MOST = {"Bash": 1200, "Edit": 600, "Read": 500}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_description_is_short_and_every_required_parameter_is_explained(tool):
    made = tool_schema(tool)
    assert 0 < len(made["description"].encode()) <= MOST.get(tool.name, 300)
    properties = made["input_schema"]["properties"]
    assert all(properties[name].get("description") for name in made["input_schema"]["required"])


def test_all_of_them_take_a_quarter_of_the_room_of_a_prefix():
    assert sum(len(json.dumps(tool_schema(tool))) for tool in TOOLS) / 4 <= 2_000


@pytest.mark.promise("K9")
def test_the_shell_is_told_git_manners():
    text = TOOLS[0].description
    assert all(
        word in text for word in ("commit", "push", "stash", "only when the user asked", "Name the paths in `git add`")
    )
