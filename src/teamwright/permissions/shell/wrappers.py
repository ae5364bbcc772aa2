"""Commands that run other commands, and the commands that they would run.

`sudo`, `env`, `xargs`, `timeout`, `bash -c`, `eval`, `find -exec` and the like. Depends on the proof of find only. The
inner command is judged like any other, so a rule for `git push` also applies to `timeout 5 git push`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from itertools import pairwise

from teamwright.permissions.programs.file_reads import find_files_read
from teamwright.protocol.values import dataclass

Words = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class WrappedCommands:
    """The commands that a wrapper runs.

    `commands` are word lists, `script` a shell text, `variables` those that it sets. `clear`: the wrapper does nothing
    else, so only the inner command is judged; otherwise it needs a rule too. `guess`: the inner command is only
    possible; it can forbid, and need not be allowed, but the wrapper then needs a rule that names it word by word.
    `opaque`: later commands may differ from their text. `file`: a script and its arguments; a shell searches PATH for
    it too, so a deny rule for a command of that name applies. `proven`: the proof of the wrapper includes its commands,
    which can only forbid.
    """

    commands: tuple[Words, ...] = ()
    script: str | None = None
    variables: tuple[str, ...] = ()
    clear: bool = False
    guess: bool = False
    opaque: bool = False
    file: Words = ()
    proven: bool = False


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """Options that take a value, words before the command, and `clear`: the wrapper does nothing else."""

    short: str = ""
    flags: str = ""
    positional: int = 0
    clear: bool = True
    more: bool = False  # the command gets further words that are not in the line
    shell: bool = False  # without a command it starts a shell with unknown input


_ANYTHING = WrappedCommands(((None,),))
"""A wrapper whose text only the shell knows."""

_WRAPPERS = {
    "command": _Wrapper(flags="p"),
    "builtin": _Wrapper(),
    "exec": _Wrapper(short="a", flags="cl", clear=False),
    "nohup": _Wrapper(),
    "noglob": _Wrapper(),
    "nocorrect": _Wrapper(),
    "time": _Wrapper(flags="p"),
    "nice": _Wrapper(short="n"),
    "ionice": _Wrapper(short="cn", flags="t"),
    "setsid": _Wrapper(flags="fw"),
    "stdbuf": _Wrapper(short="ioe"),
    "timeout": _Wrapper(short="ks", flags="v", positional=1),
    "xargs": _Wrapper(short="InPLsdE", flags="0rtx", more=True),
    "sudo": _Wrapper(short="ugpCrtTUhRD", flags="AbEHinPsSkK", clear=False, shell=True),
    "doas": _Wrapper(short="uC", flags="Lns", clear=False, shell=True),
    "chroot": _Wrapper(positional=1, clear=False, shell=True),
    "flock": _Wrapper(short="wE", flags="sxneouF", positional=1, clear=False),
    "strace": _Wrapper(short="eopsPuE", flags="fvqtTcC", clear=False),
    "parallel": _Wrapper(short="jnI", flags="k", clear=False, more=True),
    "busybox": _Wrapper(clear=False),
    "unshare": _Wrapper(flags="rmnpuif", clear=False, shell=True),
    "taskset": _Wrapper(positional=1),
    "chrt": _Wrapper(flags="bfior", positional=1, clear=False),
    "entr": _Wrapper(flags="acdnprsxz", clear=False, more=True),
    "pkexec": _Wrapper(clear=False, shell=True),
    "systemd-run": _Wrapper(clear=False, shell=True),
    "firejail": _Wrapper(clear=False, shell=True),
    "bwrap": _Wrapper(clear=False),
    "npx": _Wrapper(clear=False),
    "ltrace": _Wrapper(short="eopsu", flags="cfiSr", clear=False),
    "valgrind": _Wrapper(clear=False),
    "xvfb-run": _Wrapper(flags="a", clear=False),
    "catchsegv": _Wrapper(clear=False),
    "caffeinate": _Wrapper(short="tw", flags="dims", clear=False),
    "unbuffer": _Wrapper(flags="p", clear=False),
    "script": _Wrapper(clear=False),
}
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash", "fish", "rbash"})
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")


def base_name(word: str | None) -> str | None:
    """Return the program's name without its directory."""
    return None if word is None else word.rsplit("/", 1)[-1]


_EVALUATING = frozenset({"read", "unset", "let", "getopts", "mapfile", "readarray"})
_EVALUATING_AFTER = {"printf": "-v", "test": "-v", "wait": "-p"}

RUN_BY_PROGRAMS = re.compile(
    r"(PAGER|EDITOR|VISUAL|COMMAND|SSH|ASKPASS|DIFF|BROWSER|LESSOPEN|LESSCLOSE|BASH_ENV|ENV|PS[0-4])$"
)
"""Variables whose values programs run as commands."""

_OFF = frozenset({"false", "no", "off", "0"})
_BY_PROGRAM = re.compile(r"(pager|editor|command|fsmonitor|textconv|external|driver|cmd|helper|program|askpass)$", re.I)
_ALIAS = re.compile(r"^(-c)?alias\.", re.IGNORECASE)
_STANDARD_INPUT = re.compile(r"-|/dev/(stdin|fd/.*)|/proc/.*/fd/.*")


def unwrap(words: Words) -> WrappedCommands | None:
    """Return the commands that this one would run, or None when it is no wrapper."""
    name = base_name(words[0]) if words else None
    if name is None:
        return None
    if name in SHELLS or name == "su":
        return _shell(words)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words)
    wrapper = _WRAPPERS.get(name)
    return _unwrap_options(words, wrapper) if wrapper is not None else None


def evaluated_names(words: Words) -> Words:
    """Return the words that a builtin evaluates as names of variables: `read 'a[$(date)]'` runs date."""
    name = words[0] if words else None
    if name in _EVALUATING:
        return words[1:]
    sign = _EVALUATING_AFTER.get(name or "")
    return tuple(word for before, word in pairwise(words) if sign and before == sign)


def _unwrap_options(words: Words, wrapper: _Wrapper) -> WrappedCommands | None:
    if words[0] == "command" and len(words) > 1 and words[1] in {"-v", "-V"}:
        return None  # it only prints the path of a program
    start = _after_options(words, wrapper)
    if start is None:
        return (
            _any_later_word(_with_unknown_arguments(words, len(words)), more=(None,))
            if wrapper.more
            else _any_later_word(words)
        )
    start += wrapper.positional
    if start >= len(words):
        return _ANYTHING if wrapper.shell else None
    if words[start] in {"-c", "--command"}:  # `flock FILE -c TEXT`
        text = words[start + 1] if start + 1 < len(words) else None
        return _ANYTHING if text is None else WrappedCommands(script=text)
    tail = (*_with_unknown_arguments(words, start)[start:], None) if wrapper.more else words[start:]
    return WrappedCommands((tail,), clear=wrapper.clear)


def _with_unknown_arguments(words: Words, start: int) -> Words:
    """Return the words with those marked unknown that get input: `xargs -I X sh -c X`, `parallel echo {1}`."""
    marks = {"{"}
    for at, word in enumerate(words[:start]):
        if word is not None and word.startswith(("-I", "-i", "-J", "--replace")):
            after = words[at + 1] if at + 1 < len(words) else None
            marks.add(word[2:] if word[1] != "-" and len(word) > 2 else word.partition("=")[2] or after or "{")
    return tuple(None if word is not None and any(mark in word for mark in marks) else word for word in words)


def _after_options(words: Words, wrapper: _Wrapper) -> int | None:
    """Return the start of the command; None when an option is not known."""
    at = 1
    while at < len(words):
        word = words[at]
        if word is None:
            return None
        if word == "--":
            return at + 1
        if not word.startswith("-") or word == "-":
            return at
        letters = word[1:]
        if letters[0] in wrapper.short:
            at += 1 if len(letters) > 1 else 2
        elif all(letter in wrapper.flags for letter in letters) or (wrapper.short == "n" and letters.isdigit()):
            at += 1
        else:
            return None
    return at


def _any_later_word(words: Words, more: Words = ()) -> WrappedCommands:
    """Return all later words as possible commands after unknown options; each gets `more` words at its end."""
    starts = (at for at in range(1, min(len(words), 40)) if not (words[at] or "").startswith("-"))
    texts = (word.rpartition("=")[2] if word.startswith("--") else word for word in words[1:] if word)
    script = "\n".join(text for text in texts if len(text.split()) > 1)
    return WrappedCommands(tuple((*words[at:], *more) for at in starts), script=script or None, guess=True)


def _shell(words: Words) -> WrappedCommands | None:
    """Return the text of `bash -c TEXT` or `su -c TEXT`. Input by a pipe or a here-document is not known."""
    at = 1
    while at < len(words):
        word = words[at]
        if word is None:
            return _ANYTHING
        if word in {"--version", "--help"}:
            return None
        if word.startswith("-") and not word.startswith("--") and "c" in word[1:]:
            if at + 1 < len(words) and words[at + 1] == "--":
                at += 1
            if at + 1 >= len(words) or words[at + 1] is None:
                return _ANYTHING
            plain = words[0] in {"bash", "sh", "dash"} and set(word[1:]) <= set("ceux") and at == 1
            return WrappedCommands(script=words[at + 1], clear=plain and len(words) == at + 2)
        if word in {"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}:
            at += 1
        elif word in {"-s", "--"} or not word.startswith(("-", "+")) or _STANDARD_INPUT.fullmatch(word):
            break
        at += 1
    return (
        _script_file(words[at + 1 :] if words[at : at + 1] == ("--",) else words[at:])
        if words[0] != "su"
        else _ANYTHING
    )


def _script_file(script: Words) -> WrappedCommands:
    """Return a script that is read from a file. The line has the text of standard input."""
    if not script or script[0] is None or script[0] == "-s" or _STANDARD_INPUT.fullmatch(script[0]):
        return _ANYTHING
    return WrappedCommands(file=script)


def _source(words: Words) -> WrappedCommands | None:
    return _script_file(words[2:] if words[1:2] == ("--",) else words[1:])


def _eval(words: Words) -> WrappedCommands:
    texts = [word for word in words[1:] if word is not None]
    if len(texts) != len(words) - 1:
        return _ANYTHING
    return WrappedCommands(script=" ".join(texts), clear=True)


def _env(words: Words) -> WrappedCommands | None:
    variables: list[str] = []
    at = 1
    while at < len(words):
        word = words[at]
        if word is None:
            return _any_later_word(words)
        if set_here := _ASSIGNMENT.match(word):
            variables.append(set_here[1])
            at += 1
        elif word in {"-i", "-", "--ignore-environment", "-0"}:
            at += 1
        elif word in {"-u", "--unset"}:
            variables.append(words[at + 1] or "?" if at + 1 < len(words) else "?")
            at += 2
        elif word.startswith("-") and word != "--":
            return _split_by_env(words, at, word)
        else:
            start = at + 1 if word == "--" else at
            return WrappedCommands((words[start:],), variables=tuple(variables), clear=True) if words[start:] else None
    return None


def _split_by_env(words: Words, at: int, option: str) -> WrappedCommands | None:
    """Return the command of `env -S TEXT`, whose text is several words and options; None for unknown options."""
    name, joined, value = option.partition("=")
    rest = words[at + 1 :]
    if name.startswith("--s") and joined:
        text: str | None = value
    elif name.startswith("--s") or (option[1] != "-" and option.endswith("S") and option.count("S") == 1):
        text, rest = (rest[0], rest[1:]) if rest else (None, ())
    elif option[1] != "-" and "S" in option:
        text = option.partition("S")[2]
    else:
        return _any_later_word(words)
    if text is None or set(text) & set("\\$`"):
        return _ANYTHING
    try:
        found = _env(("env", *shlex.split(text), *rest))
    except ValueError:
        return _ANYTHING
    return (
        None
        if found is None
        else WrappedCommands(found.commands, found.script, ("?", *found.variables), guess=found.guess)
    )


def _trap(words: Words) -> WrappedCommands | None:
    given = words[2:] if words[1:2] == ("--",) else words[1:]
    if not given or given[0] in {"-l", "-p"}:
        return None
    return _ANYTHING if given[0] is None else WrappedCommands(script=given[0])


_EVALUATES = frozenset(
    {"declare", "typeset", "local", "export", "readonly", "let", "unset", "test", "[", "printf", "read"}
)
"""Builtins that may evaluate their arguments, which is detected only for commands of the line."""


def _coproc(words: Words) -> WrappedCommands | None:
    if any(word in _EVALUATES for word in words[1:3]):
        return _ANYTHING
    if len(words) > 1 and _ASSIGNMENT.match(words[1] or "="):
        return _ANYTHING
    named = len(words) > 2 and words[2] in _COMPOUND  # `coproc NAME { …; }`
    return WrappedCommands((words[2:] if named else words[1:],), clear=True) if len(words) > 1 else None


def _watch(words: Words) -> WrappedCommands | None:
    """Return its text, which a shell runs."""
    start = _after_options(words, _Wrapper(short="n", flags="bcdegtx"))
    if start is None:
        return _any_later_word(words)
    whole = [word for word in words[start:] if word is not None]
    return WrappedCommands(script=" ".join(whole)) if len(whole) == len(words) - start else _ANYTHING


def _unwrap_callback(words: Words) -> WrappedCommands | None:
    """Return the text of `mapfile -C TEXT` or `compgen -C TEXT`."""
    for at, word in enumerate(words[1:], 1):
        if word is None:
            return _ANYTHING
        if word.startswith("-") and "C" in word:
            text = word.partition("C")[2] or (words[at + 1] if at + 1 < len(words) else None)
            return _ANYTHING if text is None else WrappedCommands(script=text)
    return None


def _unwrap_alias(words: Words) -> WrappedCommands | None:
    """Return the command of `alias x=…`, `hash -p FILE x`, `enable -f FILE x`, `bind -x …`, `fc -s …`."""
    name, given = words[0], words[1:]
    if name == "alias":
        return WrappedCommands(opaque=True) if any(word is None or "=" in word for word in given) else None
    plain = name != "fc" and not any(word is None or (word[:1] == "-" and set(word) & set("pfx")) for word in given)
    return None if plain else WrappedCommands(opaque=True)


def _find(words: Words) -> WrappedCommands | None:
    found: list[Words] = []
    at = 1
    while at < len(words):
        if words[at] in _FIND_RUNS:
            end = next((i for i in range(at + 1, len(words)) if words[i] in {";", "+"}), len(words))
            found.append(tuple(None if word and "{}" in word else word for word in words[at + 1 : end]))
            at = end
        elif words[0] in {"fd", "fdfind"} and words[at] in {"-x", "-X", "--exec", "--exec-batch"}:
            found.append((*words[at + 1 :], None))
            break
        at += 1
    args = [word for word in words[1:] if word is not None]
    proven = words[0] == "find" and len(args) == len(words) - 1 and find_files_read("find", args) is not None
    return WrappedCommands(tuple(words for words in found if words), proven=proven) if found else None


def _git(words: Words) -> WrappedCommands | None:
    """Return texts that git runs: `git rebase --exec`, `git bisect run`, `git submodule foreach`, `git -c
    core.pager=…`."""
    for at, word in enumerate(words):
        key, given, value = (word or "").partition("=")
        if given and (words[at - 1] == "-c" or key.startswith("-c")) and _ALIAS.search(key):
            return WrappedCommands(script=value[1:] if value.startswith("!") else f"git {value}", guess=True)
        if key.lower().endswith("core.fsmonitor") and value.lower() in _OFF:
            continue  # a boolean is not the name of a program there
        if given and (words[at - 1] == "-c" or key.startswith("-c")) and _BY_PROGRAM.search(key):
            return WrappedCommands(script=value.removeprefix("!"), guess=True)
        if word is not None and word.startswith("--exec=") and "rebase" in words:
            return WrappedCommands(script=word.removeprefix("--exec="))
        if at + 1 < len(words) and ((word in {"-x", "--exec"} and "rebase" in words) or word == "foreach"):
            text = words[at + 1 :] if word == "foreach" else words[at + 1 : at + 2]
            whole = [part for part in text if part is not None and part != "--recursive"]
            return WrappedCommands(script=" ".join(whole)) if None not in text else _ANYTHING
        if word == "run" and "bisect" in words:
            return WrappedCommands((words[at + 1 :],)) if words[at + 1 :] else None
    return None


_COMPOUND = frozenset({"{", "(", "((", "[[", "if", "while", "until", "for", "case", "select"})
_SPECIAL: dict[str, Callable[[Words], WrappedCommands | None]] = {
    "eval": _eval,
    "env": _env,
    "find": _find,
    "fd": _find,
    "fdfind": _find,
    "trap": _trap,
    "git": _git,
    "source": _source,
    ".": _source,
    "coproc": _coproc,
    "watch": _watch,
    "mapfile": _unwrap_callback,
    "readarray": _unwrap_callback,
    "compgen": _unwrap_callback,
    "complete": _unwrap_callback,
    "alias": _unwrap_alias,
    "hash": _unwrap_alias,
    "enable": _unwrap_alias,
    "bind": _unwrap_alias,
    "fc": _unwrap_alias,
}
