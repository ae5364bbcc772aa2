"""Git commands that change what all worktrees of a repository share: its branches, tags, stash and settings.

An agent in a worktree changes only its own branch; everything else may be the person's. Depends on git's syntax.
"""

from __future__ import annotations

import re

from teamwright.permissions.command_words import Words, word_set
from teamwright.permissions.git_policy import split_git_command

_ALWAYS = word_set("update-ref replace gc prune maintenance filter-branch fast-import send-pack")
"""Subcommands of which every form changes the shared state, or loses what only it refers to."""

_SECOND_WORDS = {
    "reflog": word_set("expire delete drop"),
    "stash": word_set("drop clear pop"),
    "worktree": word_set("prune repair lock unlock move remove"),
    "remote": word_set("add rename remove rm set-head set-branches set-url prune update"),
}
"""Forms that the first word after the subcommand names."""

_FLAGS = {
    "checkout": re.compile(r"-[A-Za-z]*B|--ignore-other-worktrees"),
    "switch": re.compile(r"-[A-Za-z]*C|--force-c|--ignore-other-worktrees"),
    "rebase": re.compile(r"--update-refs"),
    "tag": re.compile(r"-[A-Za-z]*[df]|--(delete|force)"),
    "fetch": re.compile(r"-[A-Za-z]*u|--update-head-ok|--prune|-[A-Za-z]*p"),
}
"""Forms that an option names."""

_BRANCH_FLAGS = re.compile(r"-[A-Za-z]*[dDmMCf]|--(delete|move|force)")
_READS_CONFIG = re.compile(r"--(get|get-all|get-regexp|get-urlmatch|get-color|get-colorbool|list)|-l|get|list")
_LOCAL = re.compile(r"\.{1,2}(/|$)|/|~|file:")
_OF_REMOTES = re.compile(r"[^:]*:(|refs/(remotes|notes)/.*)")


def changes_shared_state(words: Words, own_branch: str) -> bool:
    """Return True for a git command that may change another branch, a tag, the stash or settings of the repository.

    A word that only the shell knows may be any word.
    """
    git = split_git_command(words) or ()
    if len(git) < 2 or git[1] is None:
        return False
    name, rest = git[1], git[2:]
    operands = [word for word in rest if word is None or not word.startswith("-")]
    if name in _ALWAYS:
        return True
    if (forms := _SECOND_WORDS.get(name)) is not None:
        return bool(operands) and (operands[0] is None or operands[0] in forms)
    if name == "branch":
        others = any(word != own_branch for word in operands)
        return others and any(word is None or _BRANCH_FLAGS.match(word) for word in rest)
    if name == "symbolic-ref":
        return len(operands) > 1 or any(word in {"-d", "--delete"} for word in rest)
    if name == "config":
        return bool(rest) and not any(word is not None and _READS_CONFIG.fullmatch(word) for word in rest[:1])
    if name in {"push", "fetch", "pull"} and _names_this_repository(name, operands):
        return True
    flags = _FLAGS.get(name)
    return flags is not None and any(word is not None and flags.match(word) for word in rest)


def _names_this_repository(name: str, operands: list[str | None]) -> bool:
    """Return True for a transfer from or to a directory of this machine, or one that writes local branches."""
    if any(word is None or _LOCAL.match(word) for word in operands[:1]):
        return name != "pull" or len(operands) > 1
    return name != "push" and any(
        word is None or (":" in word and not _OF_REMOTES.fullmatch(word)) for word in operands[1:]
    )
