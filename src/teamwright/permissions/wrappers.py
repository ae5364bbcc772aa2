"""Commands that run other commands: what they would run, taken out of their words.

`sudo`, `env`, `xargs`, `timeout`, `bash -c`, `eval`, `find -exec` and the like. Knows words only; what comes out
is looked at like any other command, so a rule about `git push` also holds for `timeout 5 git push`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Words = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Inside:
    """What a wrapper runs. `commands` are word lists, `script` a shell text to be parsed, `variables` what it sets.

    `clear` says that the wrapper does nothing else, so that it is as good or bad as what it runs; otherwise it
    needs a rule of its own as well. `guess` marks `commands` as possible ones only: they can forbid, and need not
    be allowed.
    """

    commands: tuple[Words, ...] = ()
    script: str | None = None
    variables: tuple[str, ...] = ()
    clear: bool = False
    guess: bool = False


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """Options that take a value (`short` letters, `long` names), words before the command, and whether it is clear."""

    short: str = ""
    flags: str = ""
    positional: int = 0
    clear: bool = True
    more: bool = False  # the command gets further words that are not written here


_ANYTHING = Inside(((None,),), guess=True)
"""Runs a text that only the shell will know."""

_WRAPPERS = {
    "command": _Wrapper(flags="p"),
    "builtin": _Wrapper(),
    "exec": _Wrapper(short="a", flags="cl", clear=False),
    "nohup": _Wrapper(),
    "time": _Wrapper(flags="p"),
    "coproc": _Wrapper(),
    "nice": _Wrapper(short="n"),
    "ionice": _Wrapper(short="cn", flags="t"),
    "setsid": _Wrapper(flags="fw"),
    "stdbuf": _Wrapper(short="ioe"),
    "timeout": _Wrapper(short="ks", flags="v", positional=1),
    "xargs": _Wrapper(short="InPLsdE", flags="0rtx", more=True),
    "sudo": _Wrapper(short="ugpCrtTUhRD", flags="AbEHnPSkK", clear=False),
    "doas": _Wrapper(short="uC", flags="Lns", clear=False),
    "chroot": _Wrapper(positional=1, clear=False),
    "flock": _Wrapper(short="wE", flags="sxneouF", positional=1, clear=False),
    "watch": _Wrapper(short="n", flags="bcdegtx", clear=False),
    "strace": _Wrapper(short="eopsPuE", flags="fvqtTcC", clear=False),
    "parallel": _Wrapper(short="jnI", flags="k", clear=False, more=True),
    "busybox": _Wrapper(clear=False),
    "unshare": _Wrapper(flags="rmnpuif", clear=False),
    "catchsegv": _Wrapper(clear=False),
    "caffeinate": _Wrapper(short="tw", flags="dims", clear=False),
    "unbuffer": _Wrapper(flags="p", clear=False),
    "script": _Wrapper(clear=False),
}
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash", "fish", "rbash"})
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")


def base_name(word: str | None) -> str | None:
    """The program's name without its directory."""
    return None if word is None else word.rsplit("/", 1)[-1]


def inside(words: Words) -> Inside | None:
    """What this command would run, or None when it is no wrapper."""
    name = base_name(words[0]) if words else None
    if name is None:
        return None
    if name in SHELLS or name == "su":
        return _shell(words)
    if name == "eval":
        return _eval(words)
    if name == "env":
        return _env(words)
    if name in {"find", "fd", "fdfind"}:
        return _find(words)
    if name == "trap":
        return (_ANYTHING if words[1] is None else Inside(script=words[1])) if len(words) > 1 else None
    if name == "git":
        return _git(words)
    wrapper = _WRAPPERS.get(name)
    return _wrapped(words, wrapper) if wrapper is not None else None


def _wrapped(words: Words, wrapper: _Wrapper) -> Inside | None:
    if words[0] == "command" and len(words) > 1 and words[1] in {"-v", "-V"}:
        return None  # only says where a program is
    start = _after_options(words, wrapper)
    if start is None:
        return _any_of(words)
    start += wrapper.positional
    if start >= len(words):
        return None
    tail = words[start:] + ((None,) if wrapper.more else ())
    return Inside((tail,), clear=wrapper.clear)


def _after_options(words: Words, wrapper: _Wrapper) -> int | None:
    """Where the command begins; None when an option is not known."""
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


def _any_of(words: Words) -> Inside:
    """Options we do not know: any later word may begin the command."""
    starts = (at for at in range(1, min(len(words), 40)) if not (words[at] or "").startswith("-"))
    return Inside(tuple(words[at:] for at in starts), guess=True)


def _shell(words: Words) -> Inside | None:
    """`bash -c TEXT`, `su -c TEXT`: the text; a shell without one runs what cannot be read here."""
    for at, word in enumerate(words[1:], 1):
        if word is None:
            return _ANYTHING
        if word.startswith("-") and not word.startswith("--") and "c" in word[1:]:
            if at + 1 >= len(words) or words[at + 1] is None:
                return _ANYTHING
            plain = words[0] in {"bash", "sh", "dash"} and set(word[1:]) <= set("ceux") and at == 1
            return Inside(script=words[at + 1], clear=plain and len(words) == at + 2)
        if not word.startswith(("-", "+")) and words[0] != "su":
            return Inside()
    return Inside()


def _eval(words: Words) -> Inside:
    texts = [word for word in words[1:] if word is not None]
    if len(texts) != len(words) - 1:
        return _ANYTHING
    return Inside(script=" ".join(texts), clear=True)


def _env(words: Words) -> Inside | None:
    variables: list[str] = []
    at = 1
    while at < len(words):
        word = words[at]
        if word is None:
            return _any_of(words)
        if set_here := _ASSIGNMENT.match(word):
            variables.append(set_here[1])
            at += 1
        elif word in {"-i", "-", "--ignore-environment", "-0"}:
            at += 1
        elif word in {"-u", "--unset"}:
            variables.append(words[at + 1] or "?" if at + 1 < len(words) else "?")
            at += 2
        elif word in {"-S", "--split-string"} and at + 2 == len(words) and words[at + 1] is not None:
            return Inside(script=words[at + 1], variables=tuple(variables), clear=False)
        elif word.startswith("-") and word != "--":
            return _any_of(words)
        else:
            start = at + 1 if word == "--" else at
            return Inside((words[start:],), variables=tuple(variables), clear=True)
    return None


def _find(words: Words) -> Inside | None:
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
    return Inside(tuple(words for words in found if words)) if found else None


def _git(words: Words) -> Inside | None:
    """`git rebase --exec`, `git bisect run`, `git submodule foreach`: shell texts given to git."""
    for at, word in enumerate(words):
        if word is not None and word.startswith("--exec=") and "rebase" in words:
            return Inside(script=word.removeprefix("--exec="))
        if at + 1 < len(words) and ((word in {"-x", "--exec"} and "rebase" in words) or word == "foreach"):
            text = words[at + 1 :] if word == "foreach" else words[at + 1 : at + 2]
            whole = [part for part in text if part is not None and part != "--recursive"]
            return Inside(script=" ".join(whole)) if None not in text else _ANYTHING
        if word == "run" and "bisect" in words:
            return Inside((words[at + 1 :],)) if words[at + 1 :] else None
    return None
