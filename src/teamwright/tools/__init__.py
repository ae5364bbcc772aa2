"""The tools of agents: one module for each, with the text that models read in a `.md` file beside it.

The names here are the built-in tools. A tool's module loads at the first use of its name, which is the tool's first
call: until then `built_in.BuiltInTool` describes it to models.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teamwright.tools.enter_plan_mode import EnterPlanMode
    from teamwright.tools.exit_plan_mode import ExitPlanMode
    from teamwright.tools.files.edit import Edit
    from teamwright.tools.files.glob import Glob
    from teamwright.tools.files.grep import Grep
    from teamwright.tools.files.notebook_edit import NotebookEdit
    from teamwright.tools.files.read import Read
    from teamwright.tools.files.write import Write
    from teamwright.tools.shell.bash import Bash
    from teamwright.tools.skill_tool import SkillTool
    from teamwright.tools.subagent.agent_without_team import ForkingSubagentTool, SubagentTool
    from teamwright.tools.subagent.message_subagent import MessageSubagent
    from teamwright.tools.subagent.task_output import TaskOutput
    from teamwright.tools.subagent.task_stop import TaskStop
    from teamwright.tools.tasks.task_create import TaskCreate
    from teamwright.tools.tasks.task_get import TaskGet
    from teamwright.tools.tasks.task_list import TaskListTool
    from teamwright.tools.tasks.task_update import TaskUpdate
    from teamwright.tools.team.agent import AgentTool, ForkingAgentTool
    from teamwright.tools.team.ask_user_question import AskUserQuestion
    from teamwright.tools.team.list_agents import ListAgents
    from teamwright.tools.team.send_message import SendMessage
    from teamwright.tools.team.team_create import TeamCreate
    from teamwright.tools.team.team_delete import TeamDelete
    from teamwright.tools.tool_search import ToolSearch
    from teamwright.tools.web_fetch import WebFetch
    from teamwright.tools.web_search import WebSearch

__all__ = [
    "AgentTool",
    "AskUserQuestion",
    "Bash",
    "Edit",
    "EnterPlanMode",
    "ExitPlanMode",
    "ForkingAgentTool",
    "ForkingSubagentTool",
    "Glob",
    "Grep",
    "ListAgents",
    "MessageSubagent",
    "NotebookEdit",
    "Read",
    "SendMessage",
    "SkillTool",
    "SubagentTool",
    "TaskCreate",
    "TaskGet",
    "TaskListTool",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TeamCreate",
    "TeamDelete",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Write",
]

MODULES = {
    "AgentTool": "team.agent",
    "AskUserQuestion": "team.ask_user_question",
    "Bash": "shell.bash",
    "Edit": "files.edit",
    "EnterPlanMode": "enter_plan_mode",
    "ExitPlanMode": "exit_plan_mode",
    "ForkingAgentTool": "team.agent",
    "ForkingSubagentTool": "subagent.agent_without_team",
    "Glob": "files.glob",
    "Grep": "files.grep",
    "ListAgents": "team.list_agents",
    "MessageSubagent": "subagent.message_subagent",
    "NotebookEdit": "files.notebook_edit",
    "Read": "files.read",
    "SendMessage": "team.send_message",
    "SkillTool": "skill_tool",
    "SubagentTool": "subagent.agent_without_team",
    "TaskCreate": "tasks.task_create",
    "TaskGet": "tasks.task_get",
    "TaskListTool": "tasks.task_list",
    "TaskOutput": "subagent.task_output",
    "TaskStop": "subagent.task_stop",
    "TaskUpdate": "tasks.task_update",
    "TeamCreate": "team.team_create",
    "TeamDelete": "team.team_delete",
    "ToolSearch": "tool_search",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Write": "files.write",
}
"""The module of each built-in tool, below this package."""


def __getattr__(name: str) -> Any:
    """Load a built-in tool at its first use. Raises AttributeError for another name."""
    if name not in MODULES:
        raise AttributeError(f"module 'teamwright.tools' has no attribute {name!r}")
    value = getattr(import_module(f"teamwright.tools.{MODULES[name]}"), name)
    globals()[name] = value
    return value
