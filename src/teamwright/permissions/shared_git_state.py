"""Git commands that change what all worktrees of a repository share: branches, tags, stash, objects and settings.

An agent in a worktree changes only its own branch and branches that it makes; everything else may be the person's. A
command that is not known here asks: it may be an alias. Depends on git's syntax and on the refs of the repository.
"""

from __future__ import annotations

import re
from typing import Protocol

from teamwright.permissions.git_policy import is_known_subcommand, split_git_command
from teamwright.shell_lines.command_words import Words, word_set

_ALWAYS = word_set(
    "update-ref replace gc prune prune-packed maintenance repack pack-refs refs multi-pack-index commit-graph"
    " filter-branch fast-import send-pack receive-pack fetch-pack http-fetch http-push update-server-info bisect"
    " subtree submodule--helper"
)
"""Subcommands of which every form changes the shared state, or loses what only it refers to."""

_FREE = word_set(
    "show-index patch-id get-tar-commit-id merge-index merge-one-file merge-ours merge-recursive merge-resolve"
    " merge-subtree unpack-file unpack-objects index-pack pack-objects fmt-merge-msg mailinfo mailsplit last-modified"
    " diff-pairs rerere lfs sparse-checkout submodule"
)
"""Further subcommands that are known, some of them by their forms below."""

_FREE_FORMS = {
    "stash": word_set("list show create apply"),
    "worktree": word_set("list"),
    "remote": word_set("show get-url"),
    "notes": word_set("list show"),
    "rerere": word_set("status diff remaining"),
    "sparse-checkout": word_set("list check-rules"),
    "submodule": word_set("status summary update"),
    "lfs": word_set("env ls-files status track untrack version pull fetch checkout"),
}
"""Subcommands whose first word after them names the form, with the forms that change nothing shared."""

_FREE_WITHOUT_WORDS = word_set("remote notes submodule lfs")
"""Those of them that only list when nothing follows."""

_REFLOG_CHANGES = word_set("expire delete drop write")
_TAG_LISTS = (
    ("l", "list"),
    ("n", ""),
    *(("", name) for name in ("contains", "no-contains", "points-at", "merged", "no-merged", "verify")),
)
_READS_CONFIG = re.compile(r"--(get|get-all|get-regexp|get-urlmatch|get-color|get-colorbool|list)|-l|get|list")
_LOCAL = re.compile(r"\.{1,2}(/|$)|/|~|file:")
_OF_REMOTES = re.compile(r"[^:]*:(|refs/(remotes|notes)/.*)")
_COMMIT = re.compile(r"(HEAD|@)([~^@].*)?|[0-9a-f]{7,64}([~^].*)?")
_PATTERN = re.compile(r"[*?\[{]")

_MOVING_SETTINGS = re.compile(
    r"(remote|url|alias|include|includeif|extensions|branch|submodule|push|fetch|receive|rebase)\.|core\.(worktree|bare)",
    re.IGNORECASE,
)
"""Settings of one call (`-c`) that may lead it to another repository, or make it move other branches."""

_MOVES_HEAD = word_set("commit merge cherry-pick revert reset rebase am pull")
_FETCH_OPTIONS = (
    *("depth", "deepen", "shallow-since", "shallow-exclude", "unshallow", "update-shallow", "set-upstream", "prune"),
    *("prune-tags", "filter", "update-head-ok", "force", "tags", "refmap", "autostash"),
)
_REBASE_VALUES = word_set("--onto -x --exec -s --strategy -X --strategy-option -C --whitespace --empty")


class RepositoryRefs(Protocol):
    """The refs of the repository in which a command works."""

    @property
    def head(self) -> str:
        """The branch that is checked out; empty for none."""
        ...

    def has(self, ref: str) -> bool:
        """Return True when this full ref exists, and where that is unknown."""
        ...

    def has_remote(self, branch: str) -> bool:
        """Return True when a remote has a branch of this name."""
        ...

    def is_made_here(self, branch: str) -> bool:
        """Return True for a branch that was made in this worktree."""
        ...


def changes_shared_state(words: Words, own_branch: str, refs: RepositoryRefs) -> bool:
    """Return True for a git command that may change another branch, a tag, the stash or settings of the repository.

    A word that only the shell knows may be any word.
    """
    git = split_git_command(words) or ()
    if len(git) < 2:
        return False
    name, rest = git[1], git[2:]
    if name is None or name in _ALWAYS or _moves_by_setting(words[1 : len(words) - len(git) + 1]):
        return True
    if not (is_known_subcommand(name) or name in _FREE):
        return True
    operands = [word for word in rest if word is None or not word.startswith("-")]
    if name in _MOVES_HEAD and refs.head not in {"", own_branch} and not refs.is_made_here(refs.head):
        return True
    if name in _FREE_FORMS:
        return _changes_by_form(name, operands, rest)
    if name == "reflog":
        return bool(operands) and (operands[0] is None or operands[0] in _REFLOG_CHANGES)
    if name == "symbolic-ref":
        return len(operands) > 1 or None in rest or _has(rest, "d", "delete")
    if name == "config":
        return bool(rest) and not any(word is not None and _READS_CONFIG.fullmatch(word) for word in rest[:1])
    if name == "tag":
        lists = not operands or any(_has(rest, letter, *filter(None, [long])) for letter, long in _TAG_LISTS)
        return not lists or None in rest or _has(rest, "dfasumFe", "delete", "force", "annotate", "sign", "message")
    if name == "branch":
        return _changes_branches(rest, operands, own_branch, refs)
    if name in {"checkout", "switch"}:
        return _leaves_branch(name, rest, own_branch, refs)
    if name == "rebase":
        return _rebases_other(rest, own_branch)
    if name in {"push", "fetch", "pull"}:
        return _transfers(name, rest, operands)
    if name in {"init", "init-db"}:
        return not operands or any(word is None or word in {".", "./"} for word in operands)
    return name == "merge" and _has(rest, "", "autostash")


def _has(rest: Words, letters: str, *names: str) -> bool:
    """Return True when a word is one of these options, in a cluster of letters or as git abbreviates long names."""
    for word in rest:
        if word == "--":
            return False
        if word is None:
            continue
        if word.startswith("--"):
            given = word[2:].partition("=")[0]
            if given and any(name.startswith(given) for name in names):
                return True
        elif letters and word.startswith("-") and set(word[1:]) & set(letters):
            return True
    return False


def _moves_by_setting(options: Words) -> bool:
    for at, word in enumerate(options):
        if word is None:
            return True
        for flag in ("-c", "--config-env"):
            if word.startswith(flag):
                value = word.removeprefix(flag).removeprefix("=") or (options[at + 1 : at + 2] or (None,))[0]
                if value is None or _MOVING_SETTINGS.match(value):
                    return True
    return False


def _changes_by_form(name: str, operands: list[str | None], rest: Words) -> bool:
    if not operands:
        return name not in _FREE_WITHOUT_WORDS
    if operands[0] not in _FREE_FORMS[name]:
        return True
    if name == "submodule" and operands[0] == "update":
        return None in rest or _has(rest, "", "init", "remote")
    return name == "remote" and None in rest


def _changes_branches(rest: Words, operands: list[str | None], own_branch: str, refs: RepositoryRefs) -> bool:
    if _has(rest, "ut", "set-upstream-to", "unset-upstream", "edit-description", "track"):
        return True
    moves = None in rest or _has(rest, "dDmMcCf", "delete", "move", "copy", "force")
    if moves and any(word != own_branch for word in operands):
        return True
    lists = _has(rest, "alr", "all", "list", "remotes", "contains", "no-contains", "merged", "no-merged", "points-at")
    return len(operands) > 1 and not lists and not moves and _follows(operands[1], rest, refs)


def _follows(start: str | None, rest: Words, refs: RepositoryRefs) -> bool:
    """Return True when a branch that begins there may get a setting: git remembers the branch that it follows."""
    if _has(rest, "", "no-track"):
        return False
    if start is None:
        return True
    if _COMMIT.fullmatch(start) and not refs.has(f"refs/heads/{start}"):
        return False
    return any(refs.has(f"{prefix}{start}") for prefix in ("", "refs/", "refs/heads/", "refs/remotes/"))


def _leaves_branch(name: str, rest: Words, own_branch: str, refs: RepositoryRefs) -> bool:
    """Return True for a checkout of a branch that may be the person's, and for a new branch with a setting."""
    if _has(rest, "B" if name == "checkout" else "C", "force-create", "ignore-other-worktrees", "conflict"):
        return True
    if _has(rest, "t", "track"):
        return True
    creates = _has(rest, "b" if name == "checkout" else "c", "create", "orphan")
    before = list(rest[: rest.index("--")]) if "--" in rest else list(rest)
    operands = [word for word in before if word is None or word == "-" or not word.startswith("-")]
    if creates:
        attached = any(word and re.match(r"-[A-Za-z]*[bc].|--(create|orphan)=", word) for word in before)
        starts = operands if attached else operands[1:]
        return bool(starts) and _follows(starts[0], rest, refs)
    if not operands or _has(rest, "d", "detach"):
        return None in operands[:1]
    paths = [*operands[1:], *(rest[rest.index("--") + 1 :] if "--" in rest else ())]
    if name == "checkout" and any(word for word in paths):
        return False  # files of a commit
    return _is_others_branch(operands[0], own_branch, refs)


def _is_others_branch(name: str | None, own_branch: str, refs: RepositoryRefs) -> bool:
    if name is None or name == "-" or name.startswith("@{-") or _PATTERN.search(name.replace("@{", "")):
        return True
    if name == own_branch or refs.is_made_here(name):
        return False
    return refs.has(f"refs/heads/{name}") or refs.has_remote(name)


def _rebases_other(rest: Words, own_branch: str) -> bool:
    """Return True for a rebase of another branch, which checks it out, and for one that moves other branches."""
    if _has(rest, "", "update-refs", "autostash"):
        return True
    operands: list[str | None] = []
    words = iter(rest)
    for word in words:
        if word in _REBASE_VALUES:
            next(words, None)
        elif word is None or not word.startswith("-"):
            operands.append(word)
    others = operands if _has(rest, "", "root") else operands[1:]
    return any(word != own_branch for word in others)


def _transfers(name: str, rest: Words, operands: list[str | None]) -> bool:
    """Return True for a transfer from or to a directory of this machine, or one that writes refs or settings here."""
    if name == "push":
        if _has(rest, "u", "set-upstream"):
            return True
    elif _has(rest, "puftP", *_FETCH_OPTIONS):
        return True
    if any(word is None or _LOCAL.match(word) for word in operands[:1]):
        return name != "pull" or len(operands) > 1
    return name != "push" and any(
        word is None or (":" in word and not _OF_REMOTES.fullmatch(word)) for word in operands[1:]
    )
