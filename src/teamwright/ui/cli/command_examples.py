"""The examples at the end of each command's `--help`: command lines, each with what it does.

Depends on nothing. A test parses every line.
"""

from __future__ import annotations

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "demo": (
        ("demo", "run a team that reads this directory"),
        ("demo --repo ../other --kill", "also kill it and resume"),
    ),
    "resume": (
        ("resume", "choose from a list of sessions"),
        ("resume shop", "continue the team 'shop'"),
        ('resume -p 3f2a "Report."', "continue a session headless"),
    ),
    "send": (
        ('send lead@shop "Stop after the tests."', "send to the lead"),
        ('send --wait ann@shop "Which file?"', "print the answer"),
    ),
    "ask": (
        ('ask shop "What is left to do?"', "ask the lead, while it works"),
        ('ask ann@shop "Which file?"', "ask a member"),
    ),
    "stop": (("stop ann@shop", "ask a member to stop"), ("stop shop", "end a team; resume continues it")),
    "rewind": (("rewind", "list the prompts of the newest session"), ("rewind --to 3", "go back to before prompt 3")),
    "review": (
        ("review", "show the newest team"),
        ("review --member ann --do accept", "accept the work of one"),
    ),
    "undo": (("undo", "undo the edits of the last prompt"), ("undo --member ann", "only the edits of one member")),
    "requests": (
        ("requests", "list pending requests"),
        ("requests allow 3f2a", "allow one request"),
        ('requests deny 3f2a --reason "No."', "deny it with a reason"),
    ),
    "worktrees": (("worktrees", "list worktrees"), ("worktrees show ann@shop", "show the state of one")),
    "integrate": (
        ("integrate shop --check make", "merge, and test each merge"),
        ("integrate shop --into main", "also move main to it"),
        ("integrate shop --pull-request", "push it, and open a pull request"),
    ),
    "sessions": (("sessions", "list sessions of this directory"), ("sessions --all", "of all directories")),
    "projects": (("projects", "list directories with data"), ("projects rm ../old", "remove the data of one")),
    "status": (
        ("status", "show the running team"),
        ("status --watch shop", "follow one team"),
        ("status --json", "for scripts"),
    ),
    "audit": (("audit", "check the newest team"), ("audit shop --json", "for scripts")),
    "teams": (
        ("teams", "list teams"),
        ("teams show shop", "show one with its members and tasks"),
        ("teams adopt shop", "lead it in a new session here"),
        ("teams rm --archived", "delete the archived ones"),
    ),
    "tasks": (("tasks shop", "list the tasks of a team"),),
    "inbox": (("inbox ann@shop", "list all messages"), ("inbox --unread lead@shop", "only unread ones")),
    "log": (
        ("log", "list events of the newest session"),
        ("log shop --member ann", "of one member"),
        ("log --call c7", "one tool call in full"),
    ),
    "trace": (("trace", "of the newest session"), ("trace shop", "of a team")),
    "cost": (("cost", "of the newest session"), ("cost shop --since 2h", "of a team, the last two hours")),
    "diff": (
        ("diff", "all changes of the newest session"),
        ("diff --stat", "only the names of files"),
        ("diff --member ann", "only one member's changes"),
    ),
    "agents": (("agents", "list agent types"), ("agents show Explore", "show one in full")),
    "permissions": (
        ("permissions", "list the rules in effect"),
        ("permissions check 'Bash(git push)'", "show the verdict on a call"),
    ),
    "doctor": (
        ("doctor", "show what is found"),
        ("doctor --live", "try the model, within a ceiling that is said first"),
    ),
    "models": (("models", "list providers, aliases and prices"), ("models anthropic", "list a service's models")),
    "check": (("check", "list every asset of this directory"), ("check --json", "for scripts")),
    "config": (
        ("config", "list settings that are set"),
        ("config get model", "print one value"),
        ("config set model opus", "change your own file"),
    ),
    "database": (("database status", "show what it contains"), ("database check", "check server and schema")),
    "plugin": (("plugin", "list added plugins"), ("plugin add ./my-plugin", "show and add one")),
    "trust": (("trust", "show the entries, then ask"),),
    "completion": (
        ("completion bash >> ~/.bashrc", "for bash"),
        ("completion fish | source", "for fish, this shell only"),
    ),
    "help": (
        ("help", "print all commands"),
        ("help teams adopt", "print the help of one"),
        ("help no-model", "explain an error"),
    ),
    "mcp": (("mcp", "list MCP servers"), ("mcp get docs", "show one of them")),
    "import": (("import", "show the servers, then ask"), ("import --yes", "for scripts")),
    "worker": (
        ("worker --name box1", "offer this machine to leads"),
        ("worker --name box1 --label gpu", "with a label"),
    ),
    "workers": (("workers", "list the workers of the database"), ("workers --json", "for scripts")),
    "version": (("version", "print the version"),),
}
"""The arguments of `teamwright` and the effect, by command."""


def example_lines(command: str) -> list[str]:
    """Return the examples of a command as lines, with the effects in one column."""
    rows = [(f"teamwright {line}", effect) for line, effect in EXAMPLES.get(command, ())]
    width = max((len(line) for line, _ in rows), default=0)
    return [f"  {line:<{width}}  {effect}" for line, effect in rows]
