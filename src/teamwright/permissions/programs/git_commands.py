"""Git commands that change nothing and run nothing that their arguments name.

Depends on the grammars of `git_options`. What a repository's own configuration makes git run is judged by
`permissions.git_trust`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from teamwright.permissions.programs.git_options import git_grammar
from teamwright.permissions.programs.options import Arguments, parse_arguments
from teamwright.permissions.table import table
from teamwright.protocol.values import dataclass

_GLOBAL = table("--no-pager -P --no-optional-locks --literal-pathspecs")
_FORMATS = ("--format", "--pretty", "--sort", "--batch", "--batch-check")
_RUNS = re.compile(r"%[-+ ]?G|(?i:signature|%\(trailers.*exec|%\(describe)")
"""Fields of a format that make git run another program."""

_NAMED_FORMATS = table("oneline short medium full fuller reference email mboxrd raw")
_OUTSIDE = re.compile(r"[/~]|(?:.*[/:])?\.\.(?:[/:]|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GitReads:
    """What git reads: from which `directory` (of `-C`), which words may be `files` there, whether contents of all.

    `follows`: files of the working tree are opened by their paths, through a directory that is a link by now.
    """

    directory: str = "."
    files: tuple[str, ...] = ()
    deep: bool = False
    follows: bool = False


def git_reads(args: list[str]) -> GitReads | None:
    """Return what `git ARGS` reads, or None when it is not certain that it does nothing else."""
    directory = ""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        if args[at] == "-C" and at + 1 < len(args) and not directory:
            directory = args[at + 1]
            at += 2
        elif args[at] in _GLOBAL:
            at += 1
        elif args[at:] == ["--version"]:
            return GitReads()
        else:
            return None
    if at >= len(args):
        return None
    name, rest = _command(args[at], args[at + 1 :])
    by = git_grammar(name)
    found = parse_arguments(rest, by) if by is not None else None
    if found is None or not _FORMS.get(name, _any)(found) or not all(map(_is_fine, found.options)):
        return None
    words = _words(name, found)
    if any(map(_OUTSIDE.match, words)):
        return None
    deep = shows_contents(args[at], args[at + 1 :])
    follows = name == "grep" and "--cached" not in rest
    if follows and any(word.startswith(":") for word in words):
        return None  # it may look above the directory
    return GitReads(directory or ".", words if deep else (), deep, follows)


def shows_contents(name: str, rest: list[str]) -> bool:
    """Whether `git NAME REST` shows what is in files: all that no path keeps out."""
    name, rest = _command(name, rest)
    if name in _LOGS:
        return not all(map(_shows_no_contents, rest))
    if name == "status":
        return any(word == "--verbose" or re.match(r"-[a-z]*v", word) for word in rest)
    return name in _SHOWING


def _command(name: str, rest: list[str]) -> tuple[str, list[str]]:
    """The command as the table names it: `git stash show` is `stash-show`."""
    if name == "stash":
        return f"stash-{rest[0] if rest else ''}", rest[1:]
    if name in {"reflog", "worktree", "notes"} and rest[:1] in (["show"], ["list"]):
        return (name if (name, rest[0]) in {("reflog", "show"), ("worktree", "list")} else ""), rest[1:]
    return name, rest


_SHOWING = table(
    "grep diff show blame annotate cat-file stash-show range-diff diff-files diff-index diff-tree archive difftool"
    " format-patch"
)
_LOGS = table("log whatchanged reflog stash-list")
_NO_CONTENTS = re.compile(
    r"--|-\d+|-n\d*|--(oneline|graph|decorate|all|branches|tags|remotes|merges|no-merges|first-parent|reverse|date-order"
    r"|topo-order|abbrev-commit|no-color|stat|shortstat|numstat|name-only|name-status|summary|follow|no-patch|no-decorate"
    r"|no-notes|ignore-case|invert-grep)|-s|-i|--(max-count|skip|since|after|until|before|author|committer|grep|format"
    r"|pretty|date|decorate|abbrev|color|branches|tags|remotes|stat)=.*",
    re.DOTALL,
)
"""Words of `git log` that show commits and names of files. Any other option may show what is in the files."""


def _shows_no_contents(word: str) -> bool:
    return not word.startswith("-") or _NO_CONTENTS.fullmatch(word) is not None


def _words(name: str, found: Arguments) -> tuple[str, ...]:
    """The operands that may be files: all of them, but for the pattern of a search."""
    given = name != "grep" or found.has("-e")
    return found.operands if given else found.operands[1:]


def _is_fine(option: tuple[str, str]) -> bool:
    name, value = option
    if name not in _FORMATS:
        return True
    if _RUNS.search(value):
        return False
    # any other word is the name of a format in the configuration
    return name not in {"--format", "--pretty"} or not value or "%" in value or ":" in value or value in _NAMED_FORMATS


def _any(found: Arguments) -> bool:
    return True


def _alone(found: Arguments) -> bool:
    return not found.operands


def _lists(*implying: str) -> Callable[[Arguments], bool]:
    """Branches and tags: a name is only looked for where an option says that they are listed."""
    return lambda found: not found.operands or found.has(*implying)


_FILTERS = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_REFERENCE = re.compile(r"HEAD|main|master|.*[/@].*")


def _reflog(found: Arguments) -> bool:
    """Show a reflog; any other plain word may be a command, as `expire` is."""
    return all(_REFERENCE.fullmatch(word) for word in found.operands)


_KEYS = re.compile(
    r"user\.(name|email)|init\.defaultbranch|core\.(bare|autocrlf|filemode|ignorecase|eol|quotepath|editor|pager)"
    r"|(pull|push|merge|rebase|fetch|color|diff|status|commit|tag)\.[a-z]+|branch\.[\w./-]+\.\w+"
    r"|remote\.[\w./-]+\.(url|fetch|pushurl)"
)
"""Keys whose values are no secrets, or are shown by other reading commands: `git remote -v` shows the URLs."""


def _config(found: Arguments) -> bool:
    """Get the value of one key; a second word would set it, and a list shows tokens of the user."""
    operands = found.operands[1:] if found.operands[:1] == ("get",) else found.operands
    return len(operands) == 1 and _KEYS.fullmatch(operands[0].lower()) is not None


def _remote(found: Arguments) -> bool:
    return not found.operands or (found.operands[0] == "get-url" and len(found.operands) == 2 and not found.options)


_FORMS: dict[str, Callable[[Arguments], bool]] = {
    "branch": _lists(*_FILTERS),
    "tag": _lists("-l", "-n", *_FILTERS),
    "config": _config,
    "reflog": _reflog,
    "remote": _remote,
    "worktree": _alone,
}
"""Commands of which only some forms read."""
