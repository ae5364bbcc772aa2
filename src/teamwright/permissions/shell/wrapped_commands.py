"""The commands that another command runs, as data, and the form for options that are not known."""

from __future__ import annotations

import re

from msgspec import Struct

from teamwright.permissions.command_words import Words


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
