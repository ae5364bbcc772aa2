"""The commands by name: where each lives, and its line of help.

`--help` is made from this table alone, so that no command's module loads before it is called. Imports nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One command: `module:function`, the section of the help it stands in, one line for the list."""

    target: str
    section: str
    help: str


WORK, LOOK, SET_UP = "Work", "Look", "Set up"

COMMANDS: dict[str, Row] = {
    "demo": Row("teamwright.ui.demo.command:demo", WORK, "A team reads this repository and reports; needs no model."),
    "resume": Row("teamwright.ui.cli.resume:resume", WORK, "Continue a team and its members, or a session."),
    "send": Row("teamwright.ui.cli.mail.send:send_command", WORK, "Write to a member of a team, NAME@TEAM."),
    "stop": Row("teamwright.ui.cli.stop:stop", WORK, "End a member, or a team, which can be resumed."),
    "undo": Row("teamwright.ui.cli.past.undo:undo", WORK, "Take back the edits of the last prompt, file by file."),
    "requests": Row(
        "teamwright.ui.cli.requests.command:requests", WORK, "What waits for you; `allow` and `deny` answer it."
    ),
    "sessions": Row("teamwright.ui.cli.sessions:sessions", LOOK, "Sessions of this directory; `rm` removes one."),
    "status": Row("teamwright.ui.cli.status:status", LOOK, "Who does what, what is open, what it cost; --watch."),
    "audit": Row("teamwright.ui.cli.audit:audit", LOOK, "What of a team is lost, doubled or left behind."),
    "teams": Row("teamwright.ui.cli.teams:teams", LOOK, "Teams on disk; `show`, `adopt` and `rm` for one of them."),
    "tasks": Row("teamwright.ui.cli.tasks:tasks", LOOK, "The task list of a team."),
    "inbox": Row("teamwright.ui.cli.mail.inbox:inbox", LOOK, "The mail of a member, NAME@TEAM; marks nothing as read."),
    "log": Row("teamwright.ui.cli.past.log:log", LOOK, "What happened in a team or a session."),
    "cost": Row("teamwright.ui.cli.past.cost:cost", LOOK, "What a team used: by member, task and model; --since."),
    "diff": Row("teamwright.ui.cli.past.diff:diff", LOOK, "What changed in files, and which member did it; --stat."),
    "agents": Row(
        "teamwright.ui.cli.agents.command:agents",
        LOOK,
        "Agent types: source, tools, model, description; `show` for one.",
    ),
    "permissions": Row(
        "teamwright.ui.cli.permissions.check:permissions",
        LOOK,
        "Rules in force and their files; `check 'CALL'`: a verdict.",
    ),
    "doctor": Row("teamwright.ui.cli.setup.doctor:doctor", SET_UP, "What is found, which model is used, and why."),
    "models": Row("teamwright.ui.cli.setup.models:models", SET_UP, "Providers, aliases, prices, what is listed."),
    "check": Row(
        "teamwright.ui.cli.setup.check:check", SET_UP, "Every asset here: used, ignored, broken, with file and line."
    ),
    "config": Row("teamwright.ui.cli.setup.config:config", SET_UP, "Settings, each with its file; `set` changes one."),
    "trust": Row("teamwright.ui.cli.setup.trust:trust", SET_UP, "Whether this repository's entries may take effect."),
    "completion": Row(
        "teamwright.ui.cli.setup.completion:completion", SET_UP, "The script that lets a shell complete our commands."
    ),
    "help": Row("teamwright.ui.cli.about:help_command", SET_UP, "This help, or the help of one command."),
    "version": Row("teamwright.ui.cli.about:version_command", SET_UP, "Print the version."),
}

_KEYS = ("there is no login: the key of a model service comes from the environment", "teamwright doctor")
_SESSION = ("no session is open here: /quit leaves one", "teamwright status")
_UPDATE = ("the program does not update itself: use the tool that installed it", "teamwright version")

ABSENT: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("login", "logout", "auth", "setup-token"), _KEYS),
    **dict.fromkeys(("exit", "quit"), _SESSION),
    **dict.fromkeys(("update", "upgrade", "install", "uninstall"), _UPDATE),
    "mcp": ("MCP servers are entries of .mcp.json or of --mcp-config", "teamwright check"),
    "plugin": ("a plugin is a directory that --plugin-dir names", "teamwright check"),
    "init": ("no set-up is needed: instructions are in AGENTS.md, settings in files", "teamwright check"),
    "setup": ("no set-up is needed: doctor shows what is found", "teamwright doctor"),
}
"""Commands of similar programs that this one does not have: the reason, and the command that helps instead."""
