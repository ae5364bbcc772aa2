"""Commands of similar programs that have no command of the same name here, and the answer to an unknown command."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.ui.display_text import clean
from teamwright.ui.terminal.line_parser import COMMAND_NAMES, UnknownCommand

MAX_CUSTOM_COMMANDS = 40
"""The number of custom commands that a list shows; the rest is counted."""

_COLORS = "the colours are those of your terminal; NO_COLOR leaves them out"
_KEY = "a key is an environment variable; `teamwright doctor` names it"
_PLUGIN = "`teamwright plugin` adds and removes plugins, which new sessions use; /skills lists their skills"
_TEAM = "/members lists the members of the team; `teamwright teams` lists teams on disk"
_NOT_HERE = "there is no cloud service behind this program; all of it runs on your machine"

EQUIVALENTS = {
    "/advisor": "/model NAME sets another model; an agent type can name one too",
    "/agents-platform": "/agents lists the agent types",
    "/allowed-tools": "/permissions shows the rules",
    "/app": _NOT_HERE,
    "/approved-tools": "/permissions shows the rules",
    "/batch": "ask the lead for a team: it splits the work into tasks for members",
    "/btw": "your words reach the lead also while it works; it answers at its next step",
    "/bug": "`teamwright doctor --bundle` writes a report without secrets for an issue",
    "/chrome": "an MCP server can drive a browser; /mcp lists the servers",
    "/claude-api": "ask for it in your own words",
    "/color": _COLORS,
    "/copy": "/export FILE writes the conversation; the terminal's own selection copies a part",
    "/debug": "`teamwright log` prints each event of the session",
    "/desktop": _NOT_HERE,
    "/effort": "--effort LEVEL, at the start, sets it; `teamwright config set effort LEVEL` keeps it",
    "/extra-usage": "/cost shows what was used; --max-budget-usd caps it",
    "/fast": "/model NAME sets a faster model",
    "/feedback": "`teamwright doctor --bundle` writes a report without secrets for an issue",
    "/files": "/diff --stat lists the changed files; @PATH in a prompt attaches one",
    "/focus": "Ctrl-T hides the task list",
    "/goal": "write the goal into your prompt; `teamwright config set task_check COMMAND` checks each task",
    "/heapdump": "`teamwright doctor --bundle` writes a report without secrets for an issue",
    "/ide": "the program runs in any terminal, also in that of an editor",
    "/insights": "/cost shows the usage; `teamwright audit` checks what happened",
    "/install-github-app": "`teamwright -p` runs in a CI job",
    "/install-slack-app": "`teamwright config set notify.webhook URL` sends notifications to Slack",
    "/ios": _NOT_HERE,
    "/keybindings": "the keys are fixed; ? on an empty line shows them",
    "/login": _KEY,
    "/logout": "a key is an environment variable: unset it",
    "/loop": "repeat it in your shell: `teamwright -p` takes a prompt",
    "/migrate-installer": "the program is upgraded as it was installed; `teamwright version` shows the version",
    "/mobile": _NOT_HERE,
    "/notifications": "`teamwright config set notify.webhook URL` sends them; the bell needs no setting",
    "/output-style": "`teamwright config set outputStyle NAME` chooses a style for new sessions",
    "/passes": _NOT_HERE,
    "/plugin": _PLUGIN,
    "/powerup": "/help lists what there is",
    "/pr-comments": "ask for it in your own words",
    "/pr_comments": "ask for it in your own words",
    "/privacy-settings": "nothing is sent except to the model's service and to what you set",
    "/proactive": "repeat it in your shell: `teamwright -p` takes a prompt",
    "/radio": _NOT_HERE,
    "/rate-limit-options": "a limit of the service is waited for; /status shows who waits",
    "/recap": "/status is the session on one page",
    "/release-notes": "CHANGELOG.md of the project lists the changes",
    "/reload-plugins": "a new session uses the plugins that were added or updated",
    "/remote-control": "`teamwright send` and `teamwright requests` work from another terminal of this machine",
    "/remote-env": _NOT_HERE,
    "/rename": "--name TITLE, at the start, sets the title of the session",
    "/sandbox": "`teamwright config set sandbox.mode MODE` sets it for the next session",
    "/schedule": "cron can run `teamwright -p`",
    "/scroll-speed": "your terminal scrolls; there is no other screen",
    "/security-review": "/review security takes your words: it reviews the changes for it",
    "/session": "/status is the session on one page",
    "/setup-bedrock": "`teamwright models` lists providers and models",
    "/setup-vertex": "`teamwright models` lists providers and models",
    "/share": "/export FILE writes the conversation",
    "/simplify": "/review simplicity takes your words: it reviews the changes for it",
    "/stats": "/cost shows the usage by member",
    "/statusline": "the last line below the input is fixed; /status shows more",
    "/stickers": _NOT_HERE,
    "/summary": "/status is the session on one page",
    "/tag": "--name TITLE, at the start, sets the title of the session",
    "/team-onboarding": "/init writes AGENTS.md, which each session reads",
    "/team": _TEAM,
    "/teams": _TEAM,
    "/teleport": "`teamwright sessions --all` lists the sessions of this machine",
    "/terminal-setup": "Alt-Enter begins a new line, without a setup",
    "/theme": _COLORS,
    "/think-back": _NOT_HERE,
    "/tui": "there is one screen, in your terminal's scrollback",
    "/ultraplan": "/mode plan sets plan mode: the lead plans, and you approve",
    "/ultrareview": "/review reviews the changes",
    "/upgrade": "the program is upgraded as it was installed; `teamwright version` shows the version",
    "/vim": "the input line has the keys of a shell",
    "/voice": "your system's dictation types into the input line",
    "/web-setup": _NOT_HERE,
    "/workflows": "ask the lead for a team: it splits the work into tasks for members",
}
"""Commands of similar programs by their names, and what to type here."""


def has_equivalent(unknown: UnknownCommand) -> bool:
    """Return True for a command of a similar program, and for a typo of a command here; other texts may be paths."""
    return unknown.name.lower() in EQUIVALENTS or bool(unknown.nearest)


def unknown_command_lines(unknown: UnknownCommand, custom_commands: Sequence[str] = ()) -> list[str]:
    """Return the lines for an unknown command; `custom_commands` are the names to list."""
    if (equivalent := EQUIVALENTS.get(unknown.name.lower())) is not None:
        return [f"  there is no {clean(unknown.name)} here: {equivalent}"]
    close = f"; did you mean {unknown.nearest}?" if unknown.nearest else ""
    names = clean(" ".join([*COMMAND_NAMES, *custom_commands[:MAX_CUSTOM_COMMANDS]]))
    return [f"  there is no {clean(unknown.name)}{close}", f"  there are  {names}"]
