"""The table of commands: the module and the help line of each.

`--help` is printed from this table, so that it loads no module of a command.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandRow(NamedTuple):
    """A command: `module:function`, its section in the help, and one line for the list."""

    target: str
    section: str
    help: str


RUN, INSPECT, CONFIGURE = "Run", "Inspect", "Configure"

COMMANDS: dict[str, CommandRow] = {
    "demo": CommandRow(
        "teamwright.ui.demo.demo_command:demo", RUN, "Run a team that reads this repository; needs no model."
    ),
    "resume": CommandRow("teamwright.ui.cli.sessions:resume", RUN, "Continue a team and its members, or a session."),
    "send": CommandRow("teamwright.ui.cli.teams:send_command", RUN, "Send a message to a member of a team, NAME@TEAM."),
    "ask": CommandRow("teamwright.ui.cli.teams:ask", RUN, "Ask a member in passing; it will not remember it."),
    "stop": CommandRow("teamwright.ui.cli.teams:stop", RUN, "Stop a member, or a team, which can be resumed."),
    "rewind": CommandRow(
        "teamwright.ui.cli.history:rewind", RUN, "Take conversation and files back to an earlier prompt."
    ),
    "review": CommandRow(
        "teamwright.ui.cli.history:review", RUN, "Review members' reports, changes, checks; accept or return."
    ),
    "undo": CommandRow("teamwright.ui.cli.history:undo", RUN, "Undo the edits of the last prompt, file by file."),
    "requests": CommandRow(
        "teamwright.ui.cli.requests:requests", RUN, "List pending requests; `allow` and `deny` answer one."
    ),
    "worktrees": CommandRow(
        "teamwright.ui.cli.worktrees:worktrees_command", RUN, "List worktrees of agents; `remove` removes one."
    ),
    "integrate": CommandRow(
        "teamwright.ui.cli.integrate:integrate", RUN, "Merge members' branches; --check, --into, --list."
    ),
    "sessions": CommandRow(
        "teamwright.ui.cli.sessions:sessions", INSPECT, "List sessions of this directory; `rm` removes one."
    ),
    "projects": CommandRow(
        "teamwright.ui.cli.sessions:projects_command", INSPECT, "List directories with data; `rm` removes all of one."
    ),
    "status": CommandRow(
        "teamwright.ui.cli.reports:status", INSPECT, "Show members, tasks, pending requests, cost; --watch."
    ),
    "audit": CommandRow("teamwright.ui.cli.reports:audit", INSPECT, "Check a team's files for lost or repeated work."),
    "teams": CommandRow(
        "teamwright.ui.cli.teams:teams", INSPECT, "List teams; `show`, `adopt` and `rm` for one of them."
    ),
    "tasks": CommandRow("teamwright.ui.cli.teams:tasks", INSPECT, "List the tasks of a team."),
    "inbox": CommandRow("teamwright.ui.cli.teams:inbox", INSPECT, "List a member's messages; marks nothing as read."),
    "log": CommandRow("teamwright.ui.cli.reports:log", INSPECT, "List the events of a team or a session."),
    "cost": CommandRow("teamwright.ui.cli.reports:cost", INSPECT, "Show the cost by member, task and model; --since."),
    "trace": CommandRow(
        "teamwright.ui.cli.trace:trace", INSPECT, "Send the spans of a session to an OpenTelemetry receiver."
    ),
    "diff": CommandRow(
        "teamwright.ui.cli.history:diff", INSPECT, "Show changed files, and which member did it; --stat."
    ),
    "agents": CommandRow(
        "teamwright.ui.cli.configuration:agents",
        INSPECT,
        "List agent types with source, tools, model; `show` for one.",
    ),
    "permissions": CommandRow(
        "teamwright.ui.cli.permissions:permissions",
        INSPECT,
        "List rules and their files; `check 'CALL'`: a verdict.",
    ),
    "doctor": CommandRow(
        "teamwright.ui.cli.doctor:doctor", CONFIGURE, "Show what is found, which model is used, and why."
    ),
    "models": CommandRow(
        "teamwright.ui.cli.configuration:models", CONFIGURE, "List providers, aliases, prices, a service's models."
    ),
    "check": CommandRow(
        "teamwright.ui.cli.configuration:check", CONFIGURE, "List every asset: used, ignored, broken, with its line."
    ),
    "mcp": CommandRow("teamwright.ui.cli.mcp:mcp", CONFIGURE, "Add, list and remove MCP servers; log in to them."),
    "config": CommandRow(
        "teamwright.ui.cli.configuration:config", CONFIGURE, "List settings with their files; `set` changes one."
    ),
    "database": CommandRow(
        "teamwright.ui.cli.team_space:database", CONFIGURE, "Make, check, upgrade and describe a PostgreSQL team space."
    ),
    "import": CommandRow(
        "teamwright.ui.cli.mcp:import_command", CONFIGURE, "Take MCP servers over from ~/.claude.json."
    ),
    "plugin": CommandRow(
        "teamwright.ui.cli.plugin:plugin_command",
        CONFIGURE,
        "List added plugins; `add`, `update`, `remove` change them.",
    ),
    "worker": CommandRow("teamwright.ui.cli.team_space:worker", CONFIGURE, "Start members of teams on this machine."),
    "workers": CommandRow("teamwright.ui.cli.team_space:workers", INSPECT, "List the machines that start members."),
    "trust": CommandRow("teamwright.ui.cli.permissions:trust", CONFIGURE, "Let this repository's entries take effect."),
    "completion": CommandRow(
        "teamwright.ui.cli.completion.completer:completion",
        CONFIGURE,
        "Print the completion script for a shell.",
    ),
    "help": CommandRow(
        "teamwright.ui.cli.about:help_command", CONFIGURE, "Print this help, or that of a command or an error."
    ),
    "version": CommandRow("teamwright.ui.cli.about:version_command", CONFIGURE, "Print the version."),
}

CHANGING = frozenset({"stop", "undo", "rewind", "integrate"})
"""Commands that change or end something when they are called: for a typo their help is suggested."""
