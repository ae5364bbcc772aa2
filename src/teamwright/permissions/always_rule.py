"""The rule that "always" would store: the narrowest useful one that allows the same call again.

Depends on the tables of programs. The bounds of grants are in `grant_bounds`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from teamwright.permissions.allow_rule_limits import INTERPRETERS, uncovered_word
from teamwright.permissions.decision_context import DecisionContext, PermissionScope
from teamwright.permissions.git_policy import split_git_command
from teamwright.permissions.read_only_commands import prove_read_only
from teamwright.permissions.rules import READ_TOOLS, WRITE_TOOLS, parse_rule, url_host, url_port
from teamwright.permissions.verdict import Access, Verdict
from teamwright.sandbox.guarded_files import guard_name
from teamwright.shell_lines.command_words import base_name, word_set
from teamwright.shell_lines.parse import parse_command
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.shell_lines.programs.side_effects import find_side_effect
from teamwright.storage.real_paths import real_path

_NARROW_PREFIXES = (
    "pytest",
    "python -m pytest",
    "python3 -m pytest",
    "uv run pytest",
    "poetry run pytest",
    *(f"{name} {verb}" for name in ("npm", "pnpm", "yarn", "bun") for verb in ("test", "run *")),
    *(f"cargo {verb}" for verb in ("test", "build", "check", "clippy", "bench", "doc")),
    *(f"go {verb}" for verb in ("test", "build", "vet")),
    *(f"dotnet {verb}" for verb in ("test", "build")),
    "ruff check",
    *("mypy", "pyright", "flake8", "tsc", "eslint", "jest", "vitest", "ctest", "rspec"),
    "bundle exec rspec",
    "git commit",
)
"""Commands whose further words do no more than the command itself, as far as a prefix rule covers them.

A star means a plain name, which the offered rule includes: the script that npm runs.
"""

_NEVER = word_set(
    "rm rmdir unlink shred truncate dd mkfs fdisk chmod chown chgrp setfacl kill pkill killall shutdown reboot halt"
    " poweroff systemctl service launchctl crontab at batch mount umount iptables sudo doas su pkexec chroot nsenter"
    " eval exec source . trap alias set export ssh scp sftp rsync nc ncat socat telnet ftp psql mysql sqlite3 redis-cli"
    " mongo mongosh aws gcloud az heroku fly flyctl vercel netlify pulumi ansible ansible-playbook vagrant twine npx"
    " bunx uvx pipx xargs parallel env watch"
)
"""Programs that destroy data, run any code, or reach other machines. No rule is offered for them."""

_ALLOWED_SUBCOMMANDS = {
    "docker": word_set("ps images logs build version info inspect"),
    "podman": word_set("ps images logs build version info inspect"),
    "kubectl": word_set("get describe logs top version explain"),
    "helm": word_set("list status get template lint version"),
    "terraform": word_set("plan validate fmt show output version"),
    "tofu": word_set("plan validate fmt show output version"),
    "git": word_set("add commit push pull fetch merge switch cherry-pick am revert log diff show status blame grep"),
    "gh": word_set("pr issue run repo release"),
    "brew": word_set("list info search"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), word_set("test run install ci i ls list outdated audit why view")),
    "cargo": word_set("test build check clippy bench doc fmt tree metadata update fetch run"),
}
"""Subcommands of these programs for which a rule is offered; the others destroy, publish or run anything."""

_DESTRUCTIVE_OPTIONS = {
    "git": word_set("-f --force --force-with-lease -d -D --delete --mirror --prune --discard-changes -A --all"),
    "gh": word_set("delete merge close create edit comment review"),
    "curl": word_set("-X --request -d --data --data-raw --data-binary --data-urlencode --json -F --form -u --user -H"),
    "find": word_set("-delete -exec -execdir -ok -okdir"),
}
"""Options and words of destructive calls, which should not be repeated without a question."""

_PLAIN = re.compile(r"[A-Za-z0-9][\w:.-]*")


def suggest_rule(tool: str, access: Access, context: DecisionContext) -> str:
    """Return the rule to offer, or an empty text."""
    if access.command is not None:
        return _for_command(access, context)
    if access.url is not None:
        host = url_host(access.url)
        port = f":{url_port(access.url)}" if access.needs_port else ""
        return f"{tool}(domain:{host}{port})" if _PLAIN.fullmatch(host) else ""
    if access.writes:
        return _for_paths("Edit", access.writes, context.scope) if tool in WRITE_TOOLS else ""
    if access.reads:
        return _for_paths("Read", access.reads, context.scope) if tool in READ_TOOLS else ""
    if access.subject is not None:
        return f"{tool}({access.subject})" if _PLAIN.fullmatch(access.subject) else ""
    return tool


def _for_command(access: Access, context: DecisionContext) -> str:
    command = _plain_command(access, context.scope)
    if command is None:
        return ""
    words = [word for word in command.words if word is not None]
    narrow = next((text for text in map(shlex.split, _NARROW_PREFIXES) if _begins(words, text)), None)
    if narrow is not None:
        rule = f"Bash({' '.join(words[: len(narrow)])}:*)"
        if not uncovered_word(context, parse_rule(rule, Verdict.ALLOW, "offered", context.scope.base), command):
            return rule
    line = exact_line(access, context.scope)
    return f"Bash({line})" if line else ""


def exact_line(access: Access, scope: PermissionScope) -> str:
    """Return the line as the pattern of a rule for it alone; empty when it should not run again without a question."""
    command = _plain_command(access, scope)
    line = shlex.join(word for word in command.words if word is not None) if command is not None else ""
    return line if "*" not in line else ""


def _plain_command(access: Access, scope: PermissionScope) -> ShellCommand | None:
    """Return the only command of a line whose words are all known and that may be repeated; None for other lines."""
    parsed = parse_command(access.command or "", access.cwd or scope.base)
    if not parsed.is_valid or parsed.doubt or parsed.redirects or parsed.variables_set or len(parsed.commands) != 1:
        return None
    return _repeatable(parsed.commands[0])


def exact_commands(access: Access, scope: PermissionScope) -> tuple[str, ...]:
    """Return the patterns of rules for the very commands of a line that do more than read; empty when one has none.

    Its redirections are asked about each time.
    """
    parsed = parse_command(access.command or "", access.cwd or scope.base)
    if not parsed.is_valid or parsed.doubt or parsed.variables_set:
        return ()
    changing = [one for one in parsed.commands if one.role != "run" or prove_read_only(one) is None]
    changing = changing or parsed.commands[:1]  # what reads only may write by a redirection
    lines = [shlex.join(filter(None, one.words)) if _repeatable(one) is not None else "" for one in changing]
    return tuple(dict.fromkeys(lines)) if all(line and "*" not in line for line in lines) else ()


def _repeatable(command: ShellCommand) -> ShellCommand | None:
    """Return the command if all its words are known and it may be repeated."""
    words = [word for word in command.words if word is not None]
    if not words or len(words) < len(command.words) or command.globs or command.variables or "\n" in "".join(words):
        return None
    return command if _may_be_repeated(words) else None


def _may_be_repeated(words: list[str]) -> bool:
    """Return True when the same command may run again unasked: it destroys nothing and runs no other code."""
    name = base_name(words[0]) or ""
    if name in _NEVER or find_side_effect(tuple(words), ()):
        return False
    if name in INTERPRETERS and (len(words) == 1 or (words[1].startswith("-") and words[1] != "-m")):
        return False  # its code comes in a word or from another place, not from a file
    git = split_git_command(tuple(words))
    rest = [word or "" for word in git[1:]] if git is not None else words[1:]
    subcommand = next((word for word in rest if not word.startswith("-")), "")
    if name in _ALLOWED_SUBCOMMANDS and subcommand not in _ALLOWED_SUBCOMMANDS[name]:
        return False
    if subcommand == "push" and any(word.startswith(("+", ":")) for word in rest):
        return False
    return not _DESTRUCTIVE_OPTIONS.get(name, frozenset[str]()) & {word.partition("=")[0] for word in rest}


def _begins(words: list[str], narrow: list[str]) -> bool:
    return len(words) >= len(narrow) and all(
        word == pattern or (pattern == "*" and _PLAIN.fullmatch(word) is not None)
        for word, pattern in zip(words, narrow, strict=False)
    )


def _for_paths(tool: str, paths: tuple[Path, ...], scope: PermissionScope) -> str:
    offered = {_for_path(tool, path, scope) for path in paths}
    return offered.pop() if len(offered) == 1 else ""


def _for_path(tool: str, path: Path, scope: PermissionScope) -> str:
    real = Path(real_path(path))
    base = Path(real_path(scope.base))
    below = str(real.relative_to(base)) if real.is_relative_to(base) else ""
    private = any(real.is_relative_to(directory) for directory in scope.private)
    if private or guard_name(below or str(real)) or not str(real).isprintable() or set(str(real)) & set("*?"):
        return ""
    if below:
        first, slash, _ = below.partition("/")
        return f"{tool}({first}/**)" if slash else f"{tool}(/{first})" if first != "." else ""
    if len(real.parts) < 4:
        return ""  # so near the root a rule would cover too much
    return f"Edit(/{real})" if tool == "Edit" else f"{tool}(/{real.parent}/**)"
