"""What "always" would store: the narrowest rule that answers the same call again and is still worth having.

Nothing is offered for a compound line, for what removes or runs anything at all, or for guarded and private files.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from teamwright.permissions.book import Scope
from teamwright.permissions.guarded import guard_of
from teamwright.permissions.rule import READERS, WRITERS, host_of
from teamwright.permissions.shell.parse import parse
from teamwright.permissions.table import table
from teamwright.permissions.verdict import Access

_WITH_SUBCOMMANDS = table(
    "git npm pnpm yarn bun cargo go make uv pip poetry hatch docker kubectl gh dotnet mvn gradle bundle rake just"
    " terraform"
)
_RUNNERS = table("pytest ruff mypy pyright tsc eslint prettier jest vitest black isort flake8 tox nox ctest")
_RUN_SCRIPT = frozenset({"npm", "pnpm", "yarn", "bun"})
_NEVER = table("rm rmdir sudo doas su dd mkfs chmod chown kill pkill killall shutdown reboot eval exec source .")
_PLAIN = re.compile(r"[A-Za-z0-9][\w:.-]*")


def always(tool: str, access: Access, scope: Scope) -> str:
    """The rule to offer, or an empty text."""
    if access.command is not None:
        return _for_command(access, scope)
    if access.url is not None:
        host = host_of(access.url)
        return f"{tool}(domain:{host})" if _PLAIN.fullmatch(host) else ""
    if access.writes:
        return _for_paths("Edit", access.writes, scope) if tool in WRITERS else ""
    if access.reads:
        return _for_paths("Read", access.reads, scope) if tool in READERS else ""
    if access.subject is not None:
        return f"{tool}({access.subject})" if _PLAIN.fullmatch(access.subject) else ""
    return tool


def _for_command(access: Access, scope: Scope) -> str:
    parsed = parse(access.command or "", access.cwd or scope.base)
    if not parsed.ok or parsed.doubt or parsed.redirects or parsed.sets or len(parsed.commands) != 1:
        return ""
    command = parsed.commands[0]
    words = command.words
    if not words or None in words or command.globs or command.variables or words[0] in _NEVER:
        return ""
    written = [word for word in words if word is not None]
    if any("\n" in word for word in written):
        return ""
    if written[0] in _RUNNERS:
        return f"Bash({written[0]}:*)"
    count = 3 if len(written) > 2 and written[0] in _RUN_SCRIPT and written[1] == "run" else 2
    if written[0] in _WITH_SUBCOMMANDS and len(written) >= count and all(map(_PLAIN.fullmatch, written[1:count])):
        return f"Bash({' '.join(written[:count])}:*)"
    line = shlex.join(written)
    return f"Bash({line})" if "*" not in line else ""


def _for_paths(tool: str, paths: tuple[Path, ...], scope: Scope) -> str:
    offered = {_for_path(tool, path, scope) for path in paths}
    return offered.pop() if len(offered) == 1 else ""


def _for_path(tool: str, path: Path, scope: Scope) -> str:
    real = Path(os.path.realpath(path))
    base = Path(os.path.realpath(scope.base))
    below = str(real.relative_to(base)) if real.is_relative_to(base) else ""
    private = any(real.is_relative_to(directory) for directory in scope.private)
    if private or guard_of(below or str(real)) or not str(real).isprintable() or set(str(real)) & set("*?"):
        return ""
    if below:
        first, slash, _ = below.partition("/")
        return f"{tool}({first}/**)" if slash else f"{tool}(/{first})" if first != "." else ""
    if len(real.parts) < 4:
        return ""  # so near the root a rule would reach too far
    return f"Edit(/{real})" if tool == "Edit" else f"{tool}(/{real.parent}/**)"
