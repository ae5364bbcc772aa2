"""Git commands that change nothing and run nothing that their arguments name.

Depends on the grammars of `options`. Programs that a repository's configuration makes git run are judged
elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from msgspec import Struct

from teamwright.shell_lines.command_words import parse_rows, word_set
from teamwright.shell_lines.programs.options import (
    OptionGrammar,
    ParsedArguments,
    parse_arguments,
    parse_grammar,
)

_GROUPS = {
    "COMMITS": """
        -NUM -n= -i -E -F -P -g --max-count= --skip= --since= --after= --until= --before= --since-as-filter= --author=
        --committer= --grep= --grep-reflog= --all-match --invert-grep --regexp-ignore-case --extended-regexp
        --fixed-strings --basic-regexp --perl-regexp --remove-empty --merges --no-merges --min-parents:=
        --max-parents:= --no-min-parents
        --no-max-parents --first-parent --not --all --branches[=] --tags[=] --remotes[=] --glob:=
        --exclude:= --reflog --single-worktree --ignore-missing --cherry-mark --cherry-pick --left-only --right-only
        --cherry --walk-reflogs --merge --boundary --simplify-by-decoration --show-pulls --full-history --dense --sparse
        --simplify-merges --ancestry-path[=] --date-order --author-date-order --topo-order --reverse --no-walk[=]
        --do-walk --pretty[=] --format= --abbrev-commit --no-abbrev-commit --oneline --encoding:= --expand-tabs[=]
        --no-expand-tabs --notes[=] --no-notes --relative-date --date= --parents --children --left-right --graph
        --no-graph --decorate[=] --no-decorate --decorate-refs:= --decorate-refs-exclude:= --clear-decorations --source
        --mailmap --use-mailmap --no-mailmap --log-size --no-show-signature
    """,
    "DIFFS": """
        -p -u -s -U:= -z -M[=] -C[=] -B[=] -D -l:= -S= -G= -R -a -b -w -I= -W -X[=] -q --patch --no-patch --unified:=
        --raw --patch-with-raw --patch-with-stat --indent-heuristic --no-indent-heuristic --minimal --patience
        --histogram
        --anchored:= --diff-algorithm:= --stat[=] --stat-width:= --stat-name-width:= --stat-count:= --stat-graph-width:=
        --compact-summary --numstat --shortstat --dirstat[=] --cumulative --summary --name-only --name-status --color[=]
        --no-color --color-moved[=] --no-color-moved --color-moved-ws:= --word-diff[=] --word-diff-regex:=
        --color-words[=] --no-renames --rename-empty --no-rename-empty --check --ws-error-highlight:= --full-index
        --binary --abbrev[=] --break-rewrites[=] --find-renames[=] --find-copies[=] --find-copies-harder
        --irreversible-delete --diff-filter:= --find-object:= --pickaxe-all --pickaxe-regex --skip-to:= --rotate-to:=
        --relative[=] --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change
        --ignore-all-space --ignore-blank-lines --ignore-matching-lines:= --inter-hunk-context:= --function-context
        --exit-code --quiet --no-ext-diff --no-textconv --ignore-submodules[=] --src-prefix:= --dst-prefix:= --no-prefix
        --default-prefix --line-prefix:=
    """,
    "REFS": """
        --sort= --format= --contains[=] --no-contains[=] --merged[=] --no-merged[=] --points-at= --color[=] --no-color
        --column[=] --no-column --ignore-case --omit-empty
    """,
}
GIT_COMMANDS = parse_rows("""
annotate    BLAME
blame       FILES -b -c -C[=] -e -f -l -L= -M[=] -n -p -s -t -w --root --show-stats --reverse:= --first-parent
            --porcelain --line-porcelain --incremental --encoding:= --date= --score-debug --show-name --show-number
            --show-email
            --ignore-rev:= --color-lines --color-by-age --abbrev:= --minimal --progress --no-progress
branch      FILES -a -r -v -q -i --all --remotes --verbose --quiet --list --show-current --abbrev[=] --no-abbrev REFS
cat-file    FILES -t -s -e -p -z --batch[=] --batch-check[=] --batch-all-objects --unordered --buffer
check-ignore FILES -q -v -n -z --quiet --verbose --non-matching
cherry      FILES -v --abbrev[=]
config      FILES --get --local --global --system --worktree --type:= --bool --int --path
count-objects FILES<0 -v -H --verbose --human-readable
describe    FILES --all --tags --contains --abbrev:= --candidates:= --exact-match --debug --long --match= --exclude=
            --always --first-parent --dirty[=]
diff        FILES --cached --staged --merge-base --base --ours --theirs --cc -c DIFFS
diff-files  FILES -c --cc DIFFS
diff-index  FILES -c --cc --cached --merge-base DIFFS
diff-tree   FILES -c -r -t --cc --root --no-commit-id --merge-base --pretty[=] --format= DIFFS
for-each-ref FILES -s -p --shell --perl --python --tcl --count= --exclude= --include-root-refs REFS
grep        FILES -NUM -a -A= -B= -c -C= -e= -E -F -G -h -H -i -I -l -L -m= -n -o -p -P -q -r -s -v -w -W -z --text
            --ignore-case --recursive --no-recursive --word-regexp --invert-match --full-name --extended-regexp
            --basic-regexp --fixed-strings --perl-regexp --line-number --column --files-with-matches --name-only
            --files-without-match --null --only-matching --count --color[=] --no-color --break --heading --show-function
            --after-context= --before-context= --context= --function-context --max-count= --threads= --and --or --not
            --all-match --quiet --cached --untracked --exclude-standard --no-exclude-standard --max-depth= --no-textconv
log         FILES -L= -c -r -t --cc --follow --full-diff COMMITS DIFFS
ls-files    FILES -c -d -m -o -i -s -u -k -z -t -v -f -x= --cached --deleted --modified --others --ignored --stage
            --unmerged --killed --directory --no-empty-directory --eol --exclude= --exclude-standard --error-unmatch
            --with-tree:= --full-name --abbrev[=] --debug --deduplicate --sparse --format:=
ls-tree     FILES -d -r -t -l -z --long --name-only --name-status --object-only --full-name --full-tree --abbrev[=]
            --format:=
merge-base  FILES -a --all --octopus --independent --is-ancestor --fork-point
name-rev    FILES --tags --refs:= --exclude:= --all --name-only --always --no-undefined
range-diff  FILES --creation-factor:= --no-dual-color --left-only --right-only --notes[=] --no-notes DIFFS
reflog      LOG
remote      FILES -v --verbose
rev-list    FILES --count --objects --objects-edge --disk-usage[=] --no-commit-header --header --timestamp
            --no-object-names --cc -c COMMITS --quiet --abbrev[=] --no-color --color[=]
rev-parse   FILES -q --quiet --verify --show-toplevel --git-dir --git-common-dir --absolute-git-dir --show-prefix
            --show-cdup --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository
            --show-superproject-working-tree --abbrev-ref[=] --short[=] --symbolic --symbolic-full-name --all
            --branches[=] --tags[=] --remotes[=] --glob:= --exclude:= --revs-only --no-revs --flags --no-flags
            --default= --not --show-object-format[=] --show-ref-format --git-path= --path-format:= --sq --since:=
            --until:=
shortlog    FILES -n -s -e -c -w[=] --numbered --summary --email --committer --group:= COMMITS
show        LOG
show-branch FILES -a -r --all --remotes --current --list --more:= --sha1-name --no-name --topo-order --date-order
            --merge-base --independent --topics --sparse --color[=] --no-color
show-ref    FILES -d -s -q --head --heads --branches --tags --dereference --hash[=] --verify --exists --quiet
            --abbrev[=]
stash-list  LOG
stash-show  FILES --include-untracked --only-untracked --no-include-untracked -c --cc DIFFS
status      FILES -s -b -v -u[=] -z --short --branch --show-stash --porcelain[=] --long --verbose --untracked-files[=]
            --ignore-submodules[=] --ignored[=] --column[=] --no-column --ahead-behind --no-ahead-behind --renames
            --no-renames --find-renames[=]
tag         FILES -l -n[=] -i --list REFS
version     FILES<0 --build-options
whatchanged LOG
worktree    FILES -v -z --porcelain --verbose
""")
"""The grammar of each git command that only reads."""

_GROUP_COMMANDS = {"BLAME": "blame", "LOG": "log"}


@cache
def git_grammar(name: str) -> OptionGrammar | None:
    """Return the grammar of a git command, or None for a command that is not in the table."""
    text = GIT_COMMANDS.get(name)
    if text is None:
        return None
    text = GIT_COMMANDS[_GROUP_COMMANDS.get(text, name)]
    for group, options in _GROUPS.items():
        text = text.replace(group, options)
    words: dict[str, str] = {}
    for word in text.split():
        words.setdefault(re.split(r"[=:\[]", word)[0], word)  # a command's option comes before that of a group
    return parse_grammar(" ".join(words.values()))


_GLOBAL_OPTIONS = word_set("--no-pager -P --no-optional-locks --literal-pathspecs")
_FORMATS = ("--format", "--pretty", "--sort", "--batch", "--batch-check")
_RUNS = re.compile(r"%[-+ ]?G|(?i:signature|%\(trailers.*exec|%\(describe)")
"""Fields of a format that make git run another program."""

_NAMED_FORMATS = word_set("oneline short medium full fuller reference email mboxrd raw")
_OUTSIDE = re.compile(r"[/~]|(?:.*[/:])?\.\.(?:[/:]|$)", re.DOTALL)


class GitReads(Struct, frozen=True):
    """The reads of a git command: its `directory` (of `-C`), the words that may be `files` there, and if all contents
    are read. `follows_links`: files of the work tree are opened by path, through a directory that may be a link by
    now."""

    directory: str = "."
    files: tuple[str, ...] = ()
    is_deep: bool = False
    follows_links: bool = False


def find_git_reads(args: list[str]) -> GitReads | None:
    """Return the reads of `git ARGS`, or None when it may do more than read."""
    directory = ""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        if args[at] == "-C" and at + 1 < len(args) and not directory:
            directory = args[at + 1]
            at += 2
        elif args[at] in _GLOBAL_OPTIONS:
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
    if found is None or not _FORMS.get(name, _any)(found) or not all(map(_is_harmless_option, found.options)):
        return None
    # All operands may be files, except the pattern of a search.
    are_operands_paths = name != "grep" or found.has("-e")
    words = found.operands if are_operands_paths else found.operands[1:]
    if any(map(_OUTSIDE.match, words)):
        return None
    deep = shows_contents(args[at], args[at + 1 :])
    follows = name == "grep" and "--cached" not in rest
    if follows and any(word.startswith(":") for word in words):
        return None  # it may look above the directory
    return GitReads(directory or ".", words if deep else (), deep, follows)


def shows_contents(name: str, rest: list[str]) -> bool:
    """Return True when `git NAME REST` shows contents of files, of all that no path excludes."""
    name, rest = _command(name, rest)
    if name in _LOGS:
        return any(word.startswith("-") and _NO_CONTENTS.fullmatch(word) is None for word in rest)
    if name == "status":
        return any(word == "--verbose" or re.match(r"-[a-z]*v", word) for word in rest)
    return name in _SHOWING


def _command(name: str, rest: list[str]) -> tuple[str, list[str]]:
    """Return the command as the table names it: `git stash show` is `stash-show`."""
    if name == "stash":
        return f"stash-{rest[0] if rest else ''}", rest[1:]
    if name in {"reflog", "worktree", "notes"} and rest[:1] in (["show"], ["list"]):
        return (name if (name, rest[0]) in {("reflog", "show"), ("worktree", "list")} else ""), rest[1:]
    return name, rest


_SHOWING = word_set(
    "grep diff show blame annotate cat-file stash-show range-diff diff-files diff-index diff-tree archive difftool"
    " format-patch"
)
_LOGS = word_set("log whatchanged reflog stash-list")
_NO_CONTENTS = re.compile(
    r"--|-\d+|-n\d*|--(oneline|graph|decorate|all|branches|tags|remotes|merges|no-merges|first-parent|reverse|date-order"
    r"|topo-order|abbrev-commit|no-color|stat|shortstat|numstat|name-only|name-status|summary|follow|no-patch|no-decorate"
    r"|no-notes|ignore-case|invert-grep)|-s|-i|--(max-count|skip|since|after|until|before|author|committer|grep|format"
    r"|pretty|date|decorate|abbrev|color|branches|tags|remotes|stat)=.*",
    re.DOTALL,
)
"""Words of `git log` that show commits and names of files. Any other option may show contents of files."""


def _is_harmless_option(option: tuple[str, str]) -> bool:
    name, value = option
    if name not in _FORMATS:
        return True
    if _RUNS.search(value):
        return False
    # Any other word is the name of a format in the configuration.
    return name not in {"--format", "--pretty"} or not value or "%" in value or ":" in value or value in _NAMED_FORMATS


def _any(found: ParsedArguments) -> bool:
    return True


def _only_lists(*implying: str) -> Callable[[ParsedArguments], bool]:
    """Return the check for branches and tags: a name is only a filter with an option that lists."""
    return lambda found: not found.operands or found.has(*implying)


_FILTERS = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_REFERENCE = re.compile(r"HEAD|main|master|.*[/@].*")


def _reflog(found: ParsedArguments) -> bool:
    """Accept a command that shows a reflog; any other plain word may be a subcommand such as `expire`."""
    return all(_REFERENCE.fullmatch(word) for word in found.operands)


_KEYS = re.compile(
    r"user\.(name|email)|init\.defaultbranch|core\.(bare|autocrlf|filemode|ignorecase|eol|quotepath|editor|pager)"
    r"|(pull|push|merge|rebase|fetch|color|diff|status|commit|tag)\.[a-z]+|branch\.[\w./-]+\.\w+"
    r"|remote\.[\w./-]+\.(url|fetch|pushurl)"
)
"""Keys whose values are no secrets, or are shown by other reading commands: `git remote -v` shows the URLs."""


def _config(found: ParsedArguments) -> bool:
    """Accept a command that gets the value of one key; a second word would set it, and a list shows tokens.

    Unlike other commands, `git config` takes an option after the key for a value: `git config user.name --get` sets it.
    """
    operands = found.operands[1:] if found.operands[:1] == ("get",) else found.operands
    return not found.is_mixed and len(operands) == 1 and _KEYS.fullmatch(operands[0].lower()) is not None


def _remote(found: ParsedArguments) -> bool:
    return not found.operands or (found.operands[0] == "get-url" and len(found.operands) == 2 and not found.options)


_FORMS: dict[str, Callable[[ParsedArguments], bool]] = {
    "branch": _only_lists(*_FILTERS),
    "tag": _only_lists("-l", "-n", *_FILTERS),
    "config": _config,
    "reflog": _reflog,
    "remote": _remote,
    "worktree": lambda found: not found.operands,
}
"""Commands of which only some forms are read-only."""
