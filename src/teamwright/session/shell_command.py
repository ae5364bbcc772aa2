"""A person's own shell command in a session: run like the lead's commands, shown, and stored for the lead.

It needs no permission, because the person typed it. Depends on the lead's tools.
"""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.agent.tool import ToolContext
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import message_text
from teamwright.protocol.runtime_tags import escape_tags

SHOWN = 4_000
"""Maximum characters of output that a person is shown; the lead's limit is that of its own commands."""


async def run_shell_command(agent: Agent, command: str) -> str:
    """Run the command; return the text for the lead's next turn."""
    tool = next((tool.load() for tool in agent.toolbox.tools if tool.name == "Bash"), None)
    if tool is None:
        return f"The user wanted to run {escape_tags(command)}, and commands are switched off here."
    from teamwright.tools.shell.bash import BashInput

    call = BashInput.model_validate({"command": command}).mark_typed_by_person()
    ctx = ToolContext(LEAD, agent.toolbox.workplace)
    await tool.find_facts(call, ctx)
    tool.access(call, ctx)
    result = await tool.run(call, ctx)
    output = result.content if isinstance(result.content, str) else message_text(list(result.content))
    left = len(output) - SHOWN
    display_text = f"{output[:SHOWN]}\n… {left:,} more characters, which the lead reads" if left > 0 else output
    agent.emit(Notice(member="user", text=f"! {command}\n{display_text}", level="shell"))
    note_text = f"<bash-input>{escape_tags(command)}</bash-input>\n<bash-output>{escape_tags(output)}</bash-output>"
    return f"The user ran a command.\n{note_text}"
