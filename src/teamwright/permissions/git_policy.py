"""The git policy: commands that change history, the index or the branch need a person's request.

They ask in every mode except bypass, unless the user's allow rule answers. Depends on git's syntax.
"""

from __future__ import annotations

from teamwright.shell_lines.command_words import Words, base_name, word_set

_ASKED_SUBCOMMANDS = word_set(
    "commit push switch checkout restore reset rebase merge cherry-pick revert am pull clean rm mv filter-branch"
    " update-ref update-index symbolic-ref replace gc prune stage apply bisect submodule subtree commit-tree"
    " read-tree checkout-index send-pack http-push fast-import init-db sparse-checkout"
)
_KNOWN_SUBCOMMANDS = _ASKED_SUBCOMMANDS | word_set(
    "add annotate archive blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap"
    " check-ref-format cherry clone column config count-objects describe diagnose diff diff-files diff-index diff-tree"
    " difftool fetch for-each-ref format-patch fsck grep help hash-object init interpret-trailers log ls-files"
    " ls-remote ls-tree maintenance merge-base merge-file merge-tree mergetool mktag mktree name-rev notes"
    " pack-refs range-diff reflog remote repack request-pull rev-list rev-parse shortlog show show-branch show-ref"
    " stash status stripspace tag var verify-commit verify-pack verify-tag version whatchanged worktree"
    " write-tree --version --help"
)
_VALUED = frozenset({"-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--attr-source"})
_FLAGS = _VALUED | word_set(
    "-p -P -v -h --paginate --no-pager --bare --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice"
    " --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --exec-path --html-path --man-path"
    " --info-path --attr-source --list-cmds --super-prefix"
)
_ADD_ALL = frozenset({".", "-A", "--all", "-u", "--update", "*", ":/", "./", "--no-ignore-removal", "-f", "--force"})
_LISTS = {
    "tag": frozenset({"-l", "--list", "-n", "--contains", "--points-at", "--merged", "--no-merged", "-v", "--verify"}),
    "stash": frozenset({"list", "show"}),
    "notes": frozenset({"list", "show"}),
    "reflog": frozenset({"show", "exists"}),
    "worktree": frozenset({"list", "add", "lock", "unlock"}),
}
_BRANCH_CHANGES = ("-d", "-D", "-m", "-M", "-C", "-f", "--delete", "--move", "--force")


def split_git_command(words: Words) -> Words | None:
    """Return `git` and the words after its global options; None for another program, and as a hidden subcommand."""
    name = (base_name(words[0]) or "").lower() if words else ""
    if name.startswith("git-") and name[4:] in _KNOWN_SUBCOMMANDS:
        return ("git", name[4:], *words[1:])
    if name != "git":
        return None
    at = 1
    while at < len(words):
        word = words[at]
        if word is not None and word.startswith(("-c", "--config-env")):
            attached = word.removeprefix("--config-env").removeprefix("-c").removeprefix("=")
            value = attached or (words[at + 1] if at + 1 < len(words) else None)
            if value is None or value.lower().startswith(("alias.", "include")):
                return ("git", None)
            at += 1 if attached else 2
        elif word in _VALUED:
            at += 2
        elif word is not None and word.startswith("-") and word not in {"--version", "--help"}:
            if word.partition("=")[0] not in _FLAGS:
                return ("git", None)  # it may take the next word as its value
            at += 1
        else:
            break
    return ("git", *words[at:])


def is_known_subcommand(name: str) -> bool:
    """Return True for a subcommand of git itself; others may be aliases."""
    return name in _KNOWN_SUBCOMMANDS


def deny_forms(words: Words) -> tuple[Words, ...]:
    """Return the forms in which rules that deny may name it: as written, without its directory, git without options."""
    if not words or words[0] is None:
        return (words,)
    plain = (base_name(words[0]), *words[1:])
    low = ((plain[0] or "").lower(), *words[1:])  # some file systems ignore case
    git = split_git_command(words)
    return tuple(dict.fromkeys((words, plain, low) if git is None else (words, plain, low, git)))


def same_subcommand(one: Words, other: Words) -> bool:
    """Return True when both are the same subcommand of git. `git` alone has none."""
    first, second = split_git_command(one), split_git_command(other)
    if first is None or second is None or len(first) < 2 or len(second) < 2:
        return False
    return first[1] is not None and first[1] == second[1]


def subcommand_to_ask(words: Words) -> str:
    """Return the git subcommand that needs a person's approval, or an empty text."""
    git = split_git_command(words)
    if git is None or len(git) < 2:
        return ""
    name, rest = git[1], git[2:]
    if name is None:
        return "with a hidden subcommand"
    if name in _ASKED_SUBCOMMANDS or name not in _KNOWN_SUBCOMMANDS:
        return name
    return name if _changes(name, rest) else ""


def _changes(name: str, rest: Words) -> bool:
    if name == "add":
        clusters = any(w is not None and w[:1] == "-" and w[1:2] != "-" and set(w[1:]) & set("Auf") for w in rest)
        return clusters or not rest or any(word is None or word in _ADD_ALL for word in rest)
    if name == "branch":
        joined = any(w is not None and w[:1] == "-" and w[1:2] != "-" and set(w[1:]) & set("dDmMCf") for w in rest)
        return joined or any(word is None or word.startswith(_BRANCH_CHANGES) for word in rest)
    if name == "tag":
        return bool(rest) and not any(word is not None and word.split("=")[0] in _LISTS["tag"] for word in rest)
    if name == "stash":
        return not rest or rest[0] not in _LISTS["stash"]
    if name in _LISTS:
        return bool(rest) and rest[0] not in _LISTS[name]
    return False
