"""The grammars of git commands that only read: which options of each are accepted.

The notation is that of `options`. A word in capitals stands for a group of options. Left out is what writes, runs a
program (textconv, external diffs, merge drivers, gpg, pagers), or reads a file of another place.
"""

from __future__ import annotations

import re
from functools import cache

from teamwright.permissions.programs.options import Grammar, grammar
from teamwright.permissions.table import rows

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
_TABLE = """
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
"""
_SAME = {"BLAME": "blame", "LOG": "log"}


@cache
def git_grammar(name: str) -> Grammar | None:
    """The grammar of a git command, or None for a command that is not in the table."""
    text = rows(_TABLE).get(name)
    if text is None:
        return None
    text = rows(_TABLE)[_SAME.get(text, name)]
    for group, options in _GROUPS.items():
        text = text.replace(group, options)
    words: dict[str, str] = {}
    for word in text.split():
        words.setdefault(re.split(r"[=:\[]", word)[0], word)  # a command's own option comes before that of a group
    return grammar(" ".join(words.values()))


def git_command_names() -> list[str]:
    """Every git command that the table names."""
    return sorted(rows(_TABLE))
