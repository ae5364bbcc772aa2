"""The table of commands: the module and the help line of each.

`--help` is printed from this table, so that it loads no module of a command. Depends on nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandRow(NamedTuple):
    """A command: `module:function`, its section in the help, and one line for the list."""

    target: str
    section: str
    help: str


WORK, LOOK, SET_UP = "Work", "Look", "Set up"

COMMANDS: dict[str, CommandRow] = {
    "demo": CommandRow(
        "teamwright.ui.demo.demo_command:demo", WORK, "Run a team that reads this repository; needs no model."
    ),
    "resume": CommandRow("teamwright.ui.cli.resume:resume", WORK, "Continue a team and its members, or a session."),
    "send": CommandRow("teamwright.ui.cli.send:send_command", WORK, "Send a message to a member of a team, NAME@TEAM."),
    "stop": CommandRow("teamwright.ui.cli.stop:stop", WORK, "Stop a member, or a team, which can be resumed."),
    "rewind": CommandRow(
        "teamwright.ui.cli.rewind:rewind", WORK, "Take conversation and files back to an earlier prompt."
    ),
    "review": CommandRow(
        "teamwright.ui.cli.review:review", WORK, "Review members' reports, changes, checks; accept or return."
    ),
    "undo": CommandRow("teamwright.ui.cli.undo:undo", WORK, "Undo the edits of the last prompt, file by file."),
    "requests": CommandRow(
        "teamwright.ui.cli.requests:requests", WORK, "List pending requests; `allow` and `deny` answer one."
    ),
    "worktrees": CommandRow(
        "teamwright.ui.cli.worktrees:worktrees_command", WORK, "List worktrees of agents; `remove` removes one."
    ),
    "integrate": CommandRow(
        "teamwright.ui.cli.integrate:integrate", WORK, "Merge members' branches; --check, --into, --list."
    ),
    "sessions": CommandRow(
        "teamwright.ui.cli.sessions:sessions", LOOK, "List sessions of this directory; `rm` removes one."
    ),
    "projects": CommandRow(
        "teamwright.ui.cli.projects:projects_command", LOOK, "List directories with data; `rm` removes all of one."
    ),
    "status": CommandRow(
        "teamwright.ui.cli.status:status", LOOK, "Show members, tasks, pending requests, cost; --watch."
    ),
    "audit": CommandRow("teamwright.ui.cli.audit:audit", LOOK, "Check a team's files for lost or repeated work."),
    "teams": CommandRow("teamwright.ui.cli.teams:teams", LOOK, "List teams; `show`, `adopt` and `rm` for one of them."),
    "tasks": CommandRow("teamwright.ui.cli.tasks:tasks", LOOK, "List the tasks of a team."),
    "inbox": CommandRow("teamwright.ui.cli.inbox:inbox", LOOK, "List a member's messages; marks nothing as read."),
    "log": CommandRow("teamwright.ui.cli.log:log", LOOK, "List the events of a team or a session."),
    "cost": CommandRow("teamwright.ui.cli.cost:cost", LOOK, "Show the cost by member, task and model; --since."),
    "diff": CommandRow("teamwright.ui.cli.diff:diff", LOOK, "Show changed files, and which member did it; --stat."),
    "agents": CommandRow(
        "teamwright.ui.cli.agents:agents",
        LOOK,
        "List agent types with source, tools, model; `show` for one.",
    ),
    "permissions": CommandRow(
        "teamwright.ui.cli.permissions:permissions",
        LOOK,
        "List rules and their files; `check 'CALL'`: a verdict.",
    ),
    "doctor": CommandRow(
        "teamwright.ui.cli.doctor:doctor", SET_UP, "Show what is found, which model is used, and why."
    ),
    "models": CommandRow(
        "teamwright.ui.cli.models:models", SET_UP, "List providers, aliases, prices, a service's models."
    ),
    "check": CommandRow(
        "teamwright.ui.cli.check:check", SET_UP, "List every asset: used, ignored, broken, with its line."
    ),
    "mcp": CommandRow("teamwright.ui.cli.mcp:mcp", SET_UP, "Add, list, show and remove MCP servers."),
    "config": CommandRow(
        "teamwright.ui.cli.config:config", SET_UP, "List settings with their files; `set` changes one."
    ),
    "database": CommandRow(
        "teamwright.ui.cli.database:database", SET_UP, "Make, check, upgrade and describe a PostgreSQL team space."
    ),
    "import": CommandRow(
        "teamwright.ui.cli.import_servers:import_command", SET_UP, "Take MCP servers over from ~/.claude.json."
    ),
    "plugin": CommandRow(
        "teamwright.ui.cli.plugin:plugin_command", SET_UP, "List added plugins; `add`, `update`, `remove` change them."
    ),
    "worker": CommandRow("teamwright.ui.cli.worker:worker", SET_UP, "Start members of teams on this machine."),
    "workers": CommandRow("teamwright.ui.cli.worker:workers", LOOK, "List the machines that start members."),
    "trust": CommandRow("teamwright.ui.cli.trust:trust", SET_UP, "Let this repository's entries take effect."),
    "completion": CommandRow(
        "teamwright.ui.cli.completion.completer:completion",
        SET_UP,
        "Print the completion script for a shell.",
    ),
    "help": CommandRow("teamwright.ui.cli.about:help_command", SET_UP, "Print this help, or the help of one command."),
    "version": CommandRow("teamwright.ui.cli.about:version_command", SET_UP, "Print the version."),
}

_KEYS = ("there is no login: the key of a model service comes from the environment", "teamwright doctor")
_SESSION = ("no session is open here: /quit leaves one", "teamwright status")
_UPDATE = ("the program does not update itself: use the tool that installed it", "teamwright version")

ABSENT: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("login", "logout", "auth", "setup-token"), _KEYS),
    **dict.fromkeys(("exit", "quit"), _SESSION),
    **dict.fromkeys(("update", "upgrade", "install", "uninstall"), _UPDATE),
    "init": ("no set-up is needed: instructions are in AGENTS.md, settings in files", "teamwright check"),
    "setup": ("no set-up is needed: doctor shows what is found", "teamwright doctor"),
}
"""Commands of similar programs that this one does not have: the reason, and the command to use instead."""
