"""The table for users who come from Claude Code: its flags, commands and keys, and what each is here.

`make generated` writes docs/reference/coming-from.md from it, and a wrong flag is answered with its text. Source: the
public documentation of that product, read in November 2026. Depends on nothing.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Relation: TypeAlias = Literal["same", "different", "absent"]


class EquivalentRow(NamedTuple):
    """A flag, command or key. `here` is what to type instead, and `about` one sentence. Both are empty for `same`."""

    name: str
    relation: Relation
    here: str = ""
    about: str = ""


def _same(names: str) -> tuple[EquivalentRow, ...]:
    return tuple(EquivalentRow(name, "same") for name in names.split())


FLAGS: tuple[EquivalentRow, ...] = (
    *_same("--print --continue --resume --fork-session --session-id --name --model --fallback-model --effort"),
    *_same("--dangerously-skip-permissions --allow-dangerously-skip-permissions --allowedTools --disallowedTools"),
    *_same("--tools --add-dir"),
    *_same("--permission-prompt-tool --settings --setting-sources --mcp-config --strict-mcp-config --plugin-dir"),
    *_same("--agent --agents --system-prompt --system-prompt-file --append-system-prompt --append-system-prompt-file"),
    *_same("--max-budget-usd --output-format --input-format --json-schema --include-partial-messages"),
    *_same("--replay-user-messages --no-session-persistence --version --help --init --maintenance"),
    EquivalentRow(
        "--permission-mode",
        "different",
        "--permission-mode",
        "`manual` is default, and so is `auto`, with a notice; `delegate` is a further mode.",
    ),
    EquivalentRow(
        "--max-turns",
        "different",
        "--max-turns",
        "It counts the lead's model calls for one prompt; without it a headless run has 200.",
    ),
    EquivalentRow(
        "--teammate-mode", "different", "--teammate-mode", "It takes auto, in-process, tmux, detached or an adapter."
    ),
    EquivalentRow(
        "--worktree",
        "different",
        "--worktree",
        "The branch `teamwright/NAME/lead` begins at HEAD, and the worktree is in the home directory of the program.",
    ),
    EquivalentRow("--verbose", "different", "--verbose", "It prints one line per event on stderr, and needs -p."),
    EquivalentRow(
        "--debug", "different", "--debug", "It shows tracebacks and takes no filter; `teamwright log` shows events."
    ),
    *(
        EquivalentRow(name, "different", "--effort LEVEL", "A model without such a budget uses its nearest effort.")
        for name in ("--thinking", "--max-thinking-tokens")
    ),
    *(
        EquivalentRow(
            name,
            "absent",
            "",
            "A session ends with its terminal; your shell can run `teamwright -p` in the background.",
        )
        for name in ("--bg", "--background")
    ),
    *(
        EquivalentRow(name, "absent", "", "There is no cloud service: all of it runs on your machines.")
        for name in ("--cloud", "--environment", "--remote-control", "--remote-control-session-name-prefix", "--file")
    ),
    EquivalentRow(
        "--autocompact", "absent", "teamwright config list", "Settings under `compact` say when it compacts."
    ),
    EquivalentRow("--ax-screen-reader", "absent", "-p", "A headless run prints plain lines."),
    EquivalentRow("--brief", "absent", "", "A member writes to you through the lead."),
    EquivalentRow("--debug-file", "absent", "teamwright log", "The event log of a session has what happened."),
    EquivalentRow(
        "--exclude-dynamic-system-prompt-sections",
        "absent",
        "",
        "What differs between machines always comes after what is the same.",
    ),
    EquivalentRow(
        "--forward-subagent-text",
        "absent",
        "",
        "stream-json has these texts; a client asks for them with `forwardSubagentText`.",
    ),
    EquivalentRow("--include-hook-events", "absent", "teamwright log", "The event log of a session has them."),
    EquivalentRow("--plugin-url", "absent", "--plugin-dir PATH", "A plugin is loaded from a directory."),
    EquivalentRow("--prompt-suggestions", "absent", "", "The program suggests no prompts."),
    EquivalentRow("--restricted", "absent", "--tools NAMES", "It names the only tools of the session."),
    EquivalentRow("--safe-mode", "absent", "--setting-sources ''", "An empty list reads no settings file."),
    EquivalentRow("--tmux", "absent", "--teammate-mode tmux", "It shows members in panes."),
    EquivalentRow("--betas", "absent", "", "The program chooses the beta headers that a model needs."),
    EquivalentRow("--chrome", "absent", "--mcp-config JSON", "A browser is controlled by an MCP server."),
    EquivalentRow("--no-chrome", "absent", "", "The program controls no browser."),
    EquivalentRow("--ide", "absent", "", "The program runs in the terminal of any editor."),
    EquivalentRow(
        "--from-pr", "absent", "", "The prompt can name the pull request; git and gh are commands of an agent."
    ),
    EquivalentRow("--init-only", "absent", "--init", "A run with --init needs -p and a prompt."),
    EquivalentRow("--remote", "absent", "", "Sessions run on your machines only."),
    EquivalentRow(
        "--teleport", "absent", "teamwright resume ID", "Sessions are on disk, and any terminal continues them."
    ),
    EquivalentRow("--disable-slash-commands", "absent", "", "Commands of a repository have no effect before trust."),
    EquivalentRow("--mcp-debug", "absent", "teamwright check", "It lists the MCP servers and their errors."),
    EquivalentRow("--bare", "absent", "--setting-sources ''", "An empty --setting-sources reads no settings file."),
)

SUBCOMMANDS: tuple[EquivalentRow, ...] = (
    *_same("doctor mcp"),
    EquivalentRow(
        "agents", "different", "teamwright agents", "It lists agent types; `teamwright status --watch` shows agents."
    ),
    EquivalentRow("plugin", "different", "teamwright plugin", "`add` installs a plugin, `remove` uninstalls it."),
    EquivalentRow("project", "different", "teamwright projects", "`projects rm` removes stored data of a directory."),
    EquivalentRow(
        "logs", "different", "teamwright log", "It prints events, without an id those of the newest session."
    ),
    EquivalentRow("stop", "different", "teamwright stop", "It stops a team or a member."),
    EquivalentRow("import", "different", "teamwright import", "It takes MCP servers over from `~/.claude.json`."),
    *(EquivalentRow(name, "absent") for name in ("kill", "purge", "gateway")),
    *(EquivalentRow(name, "absent") for name in ("update", "install", "auth", "setup-token", "attach", "respawn")),
    *(EquivalentRow(name, "absent") for name in ("rm", "daemon", "remote-control", "auto-mode", "ultrareview")),
)
"""The commands after the program's name. The text of an absent one is in `ui.cli.command_table.ABSENT`."""

COMMANDS: tuple[EquivalentRow, ...] = (
    *_same("/agents /clear /compact /config /context /cost /diff /doctor /exit /help /init /model /permissions"),
    *_same("/plan /resume /review /skills /status /tasks /usage /rewind /memory /hooks /mcp /add-dir /export"),
    EquivalentRow("/bashes", "different", "/members", "The list of members contains running commands."),
    EquivalentRow("/branch", "different", "/fork", "It makes a second session and stays in this one."),
    EquivalentRow("/todos", "different", "/tasks", "The task list is shared by the team."),
    *(EquivalentRow(name, "absent") for name in ("/ide", "/login", "/logout", "/output-style", "/pr-comments")),
    *(
        EquivalentRow(name, "absent")
        for name in ("/advisor", "/batch", "/btw", "/chrome", "/color", "/copy", "/desktop")
    ),
    *(
        EquivalentRow(name, "absent")
        for name in ("/effort", "/fast", "/feedback", "/goal", "/insights", "/keybindings")
    ),
    *(EquivalentRow(name, "absent") for name in ("/loop", "/mobile", "/plugin")),
    *(EquivalentRow(name, "absent") for name in ("/statusline", "/terminal-setup", "/theme", "/upgrade", "/vim")),
)
"""The text of an absent command is that of the terminal, `ui.terminal.command_equivalents.EQUIVALENTS`."""

KEYS: tuple[EquivalentRow, ...] = (
    *_same("Ctrl-C Ctrl-D Ctrl-R Ctrl-O Ctrl-T Ctrl-B Shift-Tab ? @PATH !COMMAND #NOTE"),
    EquivalentRow("Esc", "different", "Esc", "It leaves the viewed member first; at the lead it ends the lead's turn."),
    EquivalentRow("\\ Enter", "same"),
    EquivalentRow("Enter", "different", "Enter", "It sends; Alt-Enter begins a new line."),
    EquivalentRow("Ctrl-J", "absent", "Alt-Enter", "It sends, as Enter does."),
    EquivalentRow("Ctrl-G", "absent", "", "A long prompt can be a file: a prompt that is only @FILE is read from it."),
    EquivalentRow("Ctrl-V", "absent", "", "An image is attached by its path."),
    EquivalentRow("Alt-P", "absent", "/model", "It sets the model."),
    EquivalentRow("Alt-T", "absent", "--effort LEVEL", "Effort is set at the start."),
)


def absent_flag(name: str) -> EquivalentRow | None:
    """Return the row of a flag that only the other product has; None for other flags."""
    return next((row for row in FLAGS if row.name == name and row.relation == "absent"), None)
