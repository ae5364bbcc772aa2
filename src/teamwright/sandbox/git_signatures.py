"""The keys with which a line of git commands signs: `git commit -S`, or `commit.gpgsign` in a configuration.

A hook of the commit can use them too. So an agent gives the signatures where one runs, and private keys stay hidden.
Plain configuration files are read, without their includes. Depends on the parser of git's configuration.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from teamwright.git.repository import discover
from teamwright.git.unsafe_config import plain_values
from teamwright.sandbox.command_needs import CommandNeeds, Words, plain_arguments, program_name

_COMMITTING = frozenset({"commit", "merge", "rebase", "cherry-pick", "revert", "am", "pull"})
_ON = frozenset({"true", "yes", "on", "1"})
_KEYS = ("commit.gpgsign", "tag.gpgsign", "gpg.format", "user.signingkey")
_PRIVATE = frozenset({"private-keys-v1.d", "openpgp-revocs.d", "secring.gpg"})
"""Entries of gpg's directory that its agent alone needs."""


def with_signatures(
    needs: CommandNeeds, commands: Iterable[Words], cwd: Path, home: str, env: Mapping[str, str]
) -> CommandNeeds:
    """Return the needs of a line, with the keys and the agent that its signatures need.

    `cwd` is the directory of the line, `home` the person's, `env` the environment of the command.
    """
    git = [words for words in commands if program_name(words) == "git"]
    if not git:
        return needs
    settings = _settings(cwd, home, env)
    if not any(_signs(words, settings) for words in git):
        return needs
    if settings.get("gpg.format", "").lower() == "ssh":
        named = os.path.join(home, os.path.expanduser(settings.get("user.signingkey", "")))
        public = f"{named.removesuffix('.pub')}.pub"
        private = [] if env.get("SSH_AUTH_SOCK") else [public.removesuffix(".pub")]
        return replace(needs, keys=needs.keys | {public, *private}, agent=True)
    directory = env.get("GNUPGHOME") or os.path.join(home, ".gnupg")
    keys = {os.path.join(directory, name) for name in _entries(directory) if name not in _PRIVATE}
    return replace(needs, keys=needs.keys | keys, gpg_agent=True)


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _settings(cwd: Path, home: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the person and of the repository."""
    own = env.get("GIT_CONFIG_GLOBAL")
    files = [Path(own)] if own else [Path(env.get("XDG_CONFIG_HOME") or f"{home}/.config", "git/config")]
    files += [] if own else [Path(home, ".gitconfig")]
    repository = discover(cwd).repository
    files += [] if repository is None else [repository.common / "config", repository.git_dir / "config.worktree"]
    found: dict[str, str] = {}
    for file in files:
        found |= plain_values(file, _KEYS)
    return found


def _signs(words: Words, settings: Mapping[str, str]) -> bool:
    """Return True when a git command signs a commit or a tag."""
    subcommand = next(iter(plain_arguments(words[1:])), "")
    options = [os.fspath(word) for word in words[1:] if word is not None and word.startswith("-")]
    if subcommand == "tag":
        named = any(one in {"-s", "--sign", "-u"} or one.startswith("--local-user") for one in options)
        return named or (settings.get("tag.gpgsign", "").lower() in _ON and "--no-sign" not in options)
    if subcommand not in _COMMITTING or "--no-gpg-sign" in options:
        return False
    named = any(one.startswith(("-S", "--gpg-sign")) for one in options)
    return named or settings.get("commit.gpgsign", "").lower() in _ON
