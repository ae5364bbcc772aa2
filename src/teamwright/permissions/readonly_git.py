"""Git commands proven to change nothing and to run nothing that they are told to run by their arguments.

What a repository's own configuration makes git run is another question (`storage.gitdir`). Knows git's words only.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from teamwright.protocol.values import dataclass

_BAD_LONG = (
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
    "--no-index",
    "--show-signature",
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--contents",
    "--pathspec-from-file",
    "--ignore-revs-file",
    "--exclude-from",
    "--exclude-per-directory",
    "--batch-command",
    "--stdin",
    "--recurse-submodules",
)
_ABBREVIATIONS = {name[:length] for name in _BAD_LONG for length in range(3, len(name) + 1)}
_FINE_LONG = frozenset({"--no-textconv", "--no-ext-diff", "--exclude-standard", "--exclude", "--text"})
_BAD_TEXT = re.compile(r"%G|%\(signature|%\(trailers.*exec|%\(describe", re.IGNORECASE)
_READ_LIST = ("-l", "--list", "-n", "--sort", "--contains", "--merged", "--no-merged", "--points-at", "--format")


@dataclass(frozen=True, slots=True)
class GitFound:
    """Arguments that are certainly paths (of `-C`), and whether contents of all files are read."""

    paths: tuple[str, ...] = ()
    deep: bool = False


Check = Callable[[list[str]], bool]


def shows_contents(name: str, rest: list[str]) -> bool:
    """Whether `git NAME REST` shows what is in files: all that it is not kept from by a path."""
    if name == "stash":
        return rest[:1] == ["show"]
    return name in _DEEP | _SHOWING and not (name in _LOGS and all(map(_tells_no_contents, rest)))


def git_reads(args: list[str]) -> GitFound | None:
    """What `git ARGS` reads, or None when it is not proven to be harmless."""
    directory: tuple[str, ...] = ()
    at = 0
    while at < len(args) and args[at].startswith("-"):
        if args[at] == "-C" and at + 1 < len(args) and not directory:
            directory = (args[at + 1],)
            at += 2
        elif args[at] in {"--no-pager", "--no-optional-locks", "--literal-pathspecs"}:
            at += 1
        elif args[at:] == ["--version"]:
            return GitFound()
        else:
            return None
    if at >= len(args):
        return None
    name, rest = args[at], args[at + 1 :]
    check = _READING.get(name)
    if check is None or not check(rest) or not all(_fine(word, name) for word in rest):
        return None
    return GitFound(directory, deep=name in _DEEP and not (name in _LOGS and all(map(_tells_no_contents, rest))))


def _fine(word: str, name: str) -> bool:
    if _BAD_TEXT.search(word):
        return False
    if word.startswith("--"):
        option = word.split("=", 1)[0]
        return option in _FINE_LONG or option not in _ABBREVIATIONS
    if word.startswith("-") and len(word) > 1 and name in {"grep", "diff", "show", "log", "whatchanged", "shortlog"}:
        return not word.startswith(("-O", "-f")) and not (name == "grep" and set(word[1:]) & set("Of"))
    outside = word.startswith(("/", "~")) or ".." in re.split(r"[/:]", word)
    return not outside


def _any(rest: list[str]) -> bool:
    return True


def _only(*options: str) -> Check:
    """Nothing but these words (long ones also with a value)."""
    return lambda rest: all(word in options or word.split("=")[0] in options for word in rest)


def _lists(rest: list[str]) -> bool:
    """Branches and tags: only when asked to list."""
    if not rest or rest[0] in {"-a", "-r", "-v", "-vv", "--all", "--remotes", "--show-current", "-av", "-ra", "-avv"}:
        return all(word.startswith("-") and word in {*_QUIET_LISTS, *rest[:1]} for word in rest)
    return rest[0].split("=")[0] in {"-l", "--list"} and not any(
        word.startswith("-") and word.split("=")[0] not in _READ_LIST for word in rest
    )


_QUIET_LISTS = frozenset({"-a", "-r", "-v", "-vv", "--all", "--no-color", "--list", "--verbose"})


def _stash(rest: list[str]) -> bool:
    return rest[:1] in (["list"], ["show"])


def _config(rest: list[str]) -> bool:
    harmless = re.compile(
        r"(user\.(name|email)|init\.defaultbranch|core\.(bare|autocrlf|filemode)|branch\.[\w./-]+\.\w+)"
    )
    return len(rest) == 2 and rest[0] in {"--get", "get"} and harmless.fullmatch(rest[1].lower()) is not None


_DEEP = frozenset(
    {"grep", "diff", "show", "log", "blame", "annotate", "cat-file", "stash", "whatchanged", "range-diff"}
)
_SHOWING = frozenset({"archive", "diff-files", "diff-index", "diff-tree", "difftool", "format-patch"})
_LOGS = frozenset({"log", "whatchanged", "shortlog"})
_NO_CONTENTS = re.compile(
    r"--|-\d+|-n\d*|--(oneline|graph|decorate|all|branches|tags|remotes|merges|no-merges|first-parent|reverse|date-order"
    r"|topo-order|abbrev-commit|no-color|stat|shortstat|numstat|name-only|name-status|summary|follow|no-patch|no-decorate"
    r"|no-notes|ignore-case|invert-grep)|-s|-i|--(max-count|skip|since|after|until|before|author|committer|grep|format"
    r"|pretty|date|decorate|abbrev|color|branches|tags|remotes|stat)=.*",
    re.DOTALL,
)
"""Words of `git log` that show commits and names of files. Any other option may show what is in the files."""


def _tells_no_contents(word: str) -> bool:
    return not word.startswith("-") or _NO_CONTENTS.fullmatch(word) is not None


_READING: dict[str, Check] = {
    "status": _any,
    "log": _any,
    "diff": _any,
    "show": _any,
    "blame": _any,
    "annotate": _any,
    "grep": _any,
    "ls-files": _any,
    "ls-tree": _any,
    "rev-parse": _any,
    "rev-list": _any,
    "describe": _any,
    "shortlog": _any,
    "cat-file": _any,
    "merge-base": _any,
    "name-rev": _any,
    "for-each-ref": _any,
    "show-ref": lambda rest: "--exclude-existing" not in rest,
    "count-objects": _any,
    "check-ignore": _any,
    "whatchanged": _any,
    "cherry": _any,
    "range-diff": _any,
    "show-branch": _only("--all", "--current", "--list"),
    "branch": _lists,
    "tag": _lists,
    "remote": _only("-v", "--verbose"),
    "stash": _stash,
    "config": _config,
    "reflog": lambda rest: not rest or rest[0] in {"show", "-n"} or rest[0].startswith("-"),
    "worktree": _only("list", "--porcelain"),
    "version": _any,
}
