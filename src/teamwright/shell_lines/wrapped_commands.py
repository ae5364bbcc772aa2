"""The commands that another command runs, as data, and the options whose value is a command.

Examples are `tar --to-command`, `split --filter`, `git -c core.pager=…`, `git rebase --exec`. Such a command is only
possible, so that it can forbid and need not be allowed. Depends on words only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from teamwright.shell_lines.command_words import Words, base_name, parse_rows


class WrappedCommands(Struct, frozen=True):
    """The commands that a wrapper runs.

    `commands` are word lists, `script` a shell text, `variables` those that it sets. `clear`: the wrapper does nothing
    else, so only the inner command is judged; otherwise it needs a rule too. `guess`: the inner command is only
    possible; it can forbid, and need not be allowed, but the wrapper then needs a rule that names it word by word.
    `opaque`: later commands may differ from their text. `file`: a script and its arguments; a shell searches PATH for
    it too, so a deny rule for a command of that name applies. `forbids`: the commands
    can only forbid, and the wrapper is judged as if it ran none. `values` are the variables with their values.
    """

    commands: tuple[Words, ...] = ()
    script: str | None = None
    variables: tuple[str, ...] = ()
    clear: bool = False
    guess: bool = False
    opaque: bool = False
    file: Words = ()
    forbids: bool = False
    values: tuple[tuple[str, str], ...] = ()


ANYTHING = WrappedCommands(((None,),))
"""A wrapper whose text only the shell knows."""

_SIGNS = re.compile(r"[\s\\'\"$`;&|<>(){}]")
"""Characters that a shell does not read as part of a plain word."""


_MOVES = re.compile(r"-[A-Za-z]*[CD]|--(ch|cw|wd|wo|dir|root)|(chdir|chroot|-(exec|ok)dir)$")
"""Options and words with which a wrapper runs its command in another directory: `env -C`, `find -execdir`."""


def may_move(words: Words) -> bool:
    """Return True when a wrapper with these words may run its command in another directory."""
    return any(word is not None and _MOVES.match(word) for word in words)


def any_later_word(words: Words, more: Words = ()) -> WrappedCommands:
    """Return all later words as possible commands after unknown options; each gets `more` words at its end."""
    starts = (at for at in range(1, min(len(words), 40)) if not (words[at] or "").startswith("-"))
    texts = (word.rpartition("=")[2] if word.startswith("--") else word for word in words[1:] if word)
    script = "\n".join(text for text in texts if _SIGNS.search(text))
    return WrappedCommands(tuple((*words[at:], *more) for at in starts), script=script or None, guess=True)


_TABLE = """
split --filter
rg --pre
sort --compress-program
tar -I -F --use-compress-program --to-command --info-script --new-volume-script --rsh-command --rmt-command
    --checkpoint-action
zip -TT --unzip-command
rsync -e --rsh --rsync-path
wget --use-askpass
man -P -H --pager --html
gcc -wrapper
go -exec -toolexec -vettool
gdb -ex --eval-command
sqlite3 -cmd
ssh -o
scp -o -S
nc -e -c --exec --sh-exec
vim -c --cmd
nano -s --speller
mosh --ssh
bazel --run_under
diff3 --diff-program
git -O -x -u --open-files-in-pager --extcmd --upload-pack --receive-pack --exec --tree-filter --index-filter
    --msg-filter --env-filter --commit-filter --parent-filter --tag-name-filter --sendmail-cmd --to-cmd --cc-cmd
    --header-cmd
"""
_SAME = {
    **dict.fromkeys(("g++", "cc", "c++", "clang", "clang++"), "gcc"),
    **dict.fromkeys(("gtar", "bsdtar"), "tar"),
    "sftp": "scp",
    "ncat": "nc",
    **dict.fromkeys(("vi", "ex", "nvim", "view"), "vim"),
    "sdiff": "diff3",
}
_KEY = re.compile(r"\s*(?:!|(?:exec|shell|(?i:proxycommand|localcommand|knownhostscommand))[=\s]+)")
"""Text before a command in a value: `--checkpoint-action=exec=COMMAND`, `-o ProxyCommand=COMMAND`, `-c !COMMAND`."""


def run_by_options(words: Words) -> Iterator[str | None]:
    """Yield the texts that options of the program run; None for one that only the shell knows."""
    name = base_name(words[0]) or "" if words else ""
    row = parse_rows(_TABLE).get(_SAME.get(name, name))
    options = row.split() if row is not None else ()
    for option in options:
        for at, word in enumerate(words[1:], 1):
            following = words[at + 1] if at + 1 < len(words) else ""
            value = _value(option, word, following) if word else ""
            if value != "":
                yield value if value is None else _KEY.sub("", value)


def _value(option: str, word: str, following: str | None) -> str | None:
    """Return the value that the word gives to the option; an empty text when it is another word."""
    name, equals, value = word.partition("=")
    if option.startswith("--"):
        is_option = len(name) > 3 and option.startswith(name)
        return (value if equals else following) if is_option else ""
    if word == option:
        return following
    joined = len(option) == 2 and word.startswith(option)
    return word[2:] if joined else ""


_OFF = frozenset({"false", "no", "off", "0"})
_BY_PROGRAM = re.compile(r"(pager|editor|command|fsmonitor|textconv|external|driver|cmd|helper|program|askpass)$", re.I)
_ALIAS = re.compile(r"^(-c)?alias\.", re.IGNORECASE)


def unwrap_git(words: Words) -> WrappedCommands | None:
    """Return texts that git runs: `git rebase --exec`, `git bisect run`, `git submodule foreach`, `git -c
    core.pager=…`."""
    for at, word in enumerate(words):
        key, separator, value = (word or "").partition("=")
        if separator and (words[at - 1] == "-c" or key.startswith("-c")) and _ALIAS.search(key):
            return WrappedCommands(script=value[1:] if value.startswith("!") else f"git {value}", guess=True)
        if key.lower().endswith("core.fsmonitor") and value.lower() in _OFF:
            continue  # a boolean is not the name of a program there
        if separator and (words[at - 1] == "-c" or key.startswith("-c")) and _BY_PROGRAM.search(key):
            return WrappedCommands(script=value.removeprefix("!"), guess=True)
        if word is not None and word.startswith("--exec=") and "rebase" in words:
            return WrappedCommands(script=word.removeprefix("--exec="))
        if at + 1 < len(words) and ((word in {"-x", "--exec"} and "rebase" in words) or word == "foreach"):
            text = words[at + 1 :] if word == "foreach" else words[at + 1 : at + 2]
            whole = [part for part in text if part is not None and part != "--recursive"]
            return WrappedCommands(script=" ".join(whole)) if None not in text else ANYTHING
        if word == "run" and "bisect" in words:
            return WrappedCommands((words[at + 1 :],)) if words[at + 1 :] else None
    return None
