"""The table for users who come from Claude Code or a similar program: flags, commands and keys, and what each is here.

`make generated` writes docs/reference/coming-from.md from it, and a wrong flag or command is answered with its text.
Source: the public documentation of that product, read in November 2026. Depends on nothing.
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


def _absent(names: str, here: str, about: str) -> tuple[EquivalentRow, ...]:
    return tuple(EquivalentRow(name, "absent", here, about) for name in names.split())


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
    EquivalentRow("--debug", "different", "--debug", "It shows tracebacks too, and the categories have other names."),
    *(
        EquivalentRow(name, "different", "--effort LEVEL", "A model without such a budget uses its nearest effort.")
        for name in ("--thinking", "--max-thinking-tokens")
    ),
    *_absent(
        "--bg --background",
        "",
        "A session ends with its terminal; your shell can run `teamwright -p` in the background.",
    ),
    *_absent(
        "--cloud --environment --remote-control --remote-control-session-name-prefix --file",
        "",
        "There is no cloud service: all of it runs on your machines.",
    ),
    EquivalentRow(
        "--autocompact", "absent", "teamwright config list", "Settings under `compact` say when it compacts."
    ),
    EquivalentRow("--ax-screen-reader", "absent", "-p", "A headless run prints plain lines."),
    EquivalentRow("--brief", "absent", "", "A member writes to you through the lead."),
    EquivalentRow("--debug-file", "absent", "--debug", "The debug log of a session has a fixed place."),
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
    *_absent(
        "login logout auth setup-token",
        "teamwright doctor",
        "there is no login: the key of a model service comes from the environment",
    ),
    *_absent("exit quit", "teamwright status", "no session is open here: /quit leaves one"),
    *_absent(
        "update upgrade install uninstall",
        "teamwright version",
        "the program does not update itself: use the tool that installed it",
    ),
    *_absent(
        "attach respawn daemon remote-control",
        "teamwright sessions --all",
        "sessions run in a terminal or with -p, and none in the background",
    ),
    EquivalentRow(
        "rm", "absent", "teamwright sessions rm ID", "sessions, teams and stored data are removed by their own commands"
    ),
    EquivalentRow("kill", "absent", "teamwright stop NAME", "stop ends a team or a member"),
    EquivalentRow(
        "purge", "absent", "teamwright projects rm PATH", "stored data of a directory is removed by projects"
    ),
    EquivalentRow("gateway", "absent", "teamwright models", "each session calls the service of its model itself"),
    EquivalentRow(
        "auto-mode", "absent", "teamwright permissions", "no model decides about permissions: rules and modes do"
    ),
    EquivalentRow(
        "ultrareview", "absent", 'teamwright -p "Review the changes of this branch."', "a review is a prompt"
    ),
    EquivalentRow(
        "init", "absent", "teamwright check", "no set-up is needed: instructions are in AGENTS.md, settings in files"
    ),
    EquivalentRow("setup", "absent", "teamwright doctor", "no set-up is needed: doctor shows what is found"),
)
"""The commands after the program's name."""

COMMANDS: tuple[EquivalentRow, ...] = (
    *_same("/agents /btw /clear /compact /config /context /cost /diff /doctor /exit /help /init /model /permissions"),
    *_same("/plan /resume /review /skills /status /tasks /usage /rewind /memory /hooks /mcp /add-dir /export"),
    EquivalentRow("/bashes", "different", "/members", "The list of members contains running commands."),
    EquivalentRow("/branch", "different", "/fork", "It makes a second session and stays in this one."),
    EquivalentRow("/todos", "different", "/tasks", "The task list is shared by the team."),
    EquivalentRow("/advisor", "absent", "", "/model NAME sets another model; an agent type can name one too"),
    EquivalentRow("/agents-platform", "absent", "", "/agents lists the agent types"),
    *_absent("/allowed-tools /approved-tools", "", "/permissions shows the rules"),
    *_absent(
        "/app /desktop /ios /mobile /passes /radio /remote-env /stickers /think-back /web-setup",
        "",
        "there is no cloud service behind this program; all of it runs on your machine",
    ),
    *_absent("/batch /workflows", "", "ask the lead for a team: it splits the work into tasks for members"),
    *_absent(
        "/bug /feedback /heapdump", "", "`teamwright doctor --bundle` writes a report without secrets for an issue"
    ),
    EquivalentRow("/chrome", "absent", "", "an MCP server can drive a browser; /mcp lists the servers"),
    *_absent("/claude-api /pr-comments /pr_comments", "", "ask for it in your own words"),
    *_absent("/color /theme", "", "the colours are those of your terminal; NO_COLOR leaves them out"),
    EquivalentRow(
        "/copy", "absent", "", "/export FILE writes the conversation; the terminal's own selection copies a part"
    ),
    EquivalentRow("/debug", "absent", "", "start with --debug; /status names the debug log"),
    EquivalentRow(
        "/effort", "absent", "", "--effort LEVEL, at the start, sets it; `teamwright config set effort LEVEL` keeps it"
    ),
    EquivalentRow("/extra-usage", "absent", "", "/cost shows what was used; --max-budget-usd caps it"),
    EquivalentRow("/fast", "absent", "", "/model NAME sets a faster model"),
    EquivalentRow("/files", "absent", "", "/diff --stat lists the changed files; @PATH in a prompt attaches one"),
    EquivalentRow("/focus", "absent", "", "Ctrl-T hides the task list"),
    EquivalentRow(
        "/goal",
        "absent",
        "",
        "write the goal into your prompt; `teamwright config set task_check COMMAND` checks each task",
    ),
    EquivalentRow("/ide", "absent", "", "the program runs in any terminal, also in that of an editor"),
    EquivalentRow("/insights", "absent", "", "/cost shows the usage; `teamwright audit` checks what happened"),
    EquivalentRow("/install-github-app", "absent", "", "`teamwright -p` runs in a CI job"),
    EquivalentRow(
        "/install-slack-app", "absent", "", "`teamwright config set notify.webhook URL` sends notifications to Slack"
    ),
    EquivalentRow("/keybindings", "absent", "", "the keys are fixed; ? on an empty line shows them"),
    EquivalentRow("/login", "absent", "", "a key is an environment variable; `teamwright doctor` names it"),
    EquivalentRow("/logout", "absent", "", "a key is an environment variable: unset it"),
    *_absent("/loop /proactive", "", "repeat it in your shell: `teamwright -p` takes a prompt"),
    *_absent(
        "/migrate-installer /upgrade",
        "",
        "the program is upgraded as it was installed; `teamwright version` shows the version",
    ),
    EquivalentRow(
        "/notifications",
        "absent",
        "",
        "`teamwright config set notify.webhook URL` sends them; the bell needs no setting",
    ),
    EquivalentRow(
        "/output-style", "absent", "", "`teamwright config set outputStyle NAME` chooses a style for new sessions"
    ),
    EquivalentRow(
        "/plugin",
        "absent",
        "",
        "`teamwright plugin` adds and removes plugins, which new sessions use; /skills lists their skills",
    ),
    EquivalentRow("/powerup", "absent", "", "/help lists what there is"),
    EquivalentRow(
        "/privacy-settings", "absent", "", "nothing is sent except to the model's service and to what you set"
    ),
    EquivalentRow("/rate-limit-options", "absent", "", "a limit of the service is waited for; /status shows who waits"),
    *_absent("/recap /session /summary", "", "/status is the session on one page"),
    EquivalentRow("/release-notes", "absent", "", "CHANGELOG.md of the project lists the changes"),
    EquivalentRow("/reload-plugins", "absent", "", "a new session uses the plugins that were added or updated"),
    EquivalentRow(
        "/remote-control",
        "absent",
        "",
        "`teamwright send` and `teamwright requests` work from another terminal of this machine",
    ),
    *_absent("/rename /tag", "", "--name TITLE, at the start, sets the title of the session"),
    EquivalentRow("/sandbox", "absent", "", "`teamwright config set sandbox.mode MODE` sets it for the next session"),
    EquivalentRow("/schedule", "absent", "", "cron can run `teamwright -p`"),
    EquivalentRow("/scroll-speed", "absent", "", "your terminal scrolls; there is no other screen"),
    EquivalentRow("/security-review", "absent", "", "/review security takes your words: it reviews the changes for it"),
    *_absent("/setup-bedrock /setup-vertex", "", "`teamwright models` lists providers and models"),
    EquivalentRow("/share", "absent", "", "/export FILE writes the conversation"),
    EquivalentRow("/simplify", "absent", "", "/review simplicity takes your words: it reviews the changes for it"),
    EquivalentRow("/stats", "absent", "", "/cost shows the usage by member"),
    EquivalentRow("/statusline", "absent", "", "the last line below the input is fixed; /status shows more"),
    EquivalentRow("/team-onboarding", "absent", "", "/init writes AGENTS.md, which each session reads"),
    *_absent("/team /teams", "", "/members lists the members of the team; `teamwright teams` lists teams on disk"),
    EquivalentRow("/teleport", "absent", "", "`teamwright sessions --all` lists the sessions of this machine"),
    EquivalentRow("/terminal-setup", "absent", "", "Alt-Enter begins a new line, without a setup"),
    EquivalentRow("/tui", "absent", "", "there is one screen, in your terminal's scrollback"),
    EquivalentRow("/ultraplan", "absent", "", "/mode plan sets plan mode: the lead plans, and you approve"),
    EquivalentRow("/ultrareview", "absent", "", "/review reviews the changes"),
    EquivalentRow("/vim", "absent", "", "the input line has the keys of a shell"),
    EquivalentRow("/voice", "absent", "", "your system's dictation types into the input line"),
)
"""The commands of a session."""

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
    """Return the row of a flag that only other products have; None for other flags."""
    return _absent_row(FLAGS, name)


def absent_command(word: str) -> EquivalentRow | None:
    """Return the row of a command of the program that only other products have; None for other words."""
    return _absent_row(SUBCOMMANDS, word.lower())


def session_command(name: str) -> EquivalentRow | None:
    """Return the row of a command in a session that only other products have; None for other commands."""
    return _absent_row(COMMANDS, name.lower())


def _absent_row(rows: tuple[EquivalentRow, ...], name: str) -> EquivalentRow | None:
    return next((row for row in rows if row.name == name and row.relation == "absent"), None)
