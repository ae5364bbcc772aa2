"""Fences: which paths belong to somebody else, and the only ones that an agent may change at all.

A fence holds for every mode and cannot be lifted by a rule: whoever wants such a file changed asks its owner. Knows
path patterns and the words of a command; does not know who wrote the fences down.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from teamwright.permissions.parsed import Command
from teamwright.permissions.rule import PathPattern
from teamwright.permissions.table import table
from teamwright.permissions.verdict import Decision, Verdict

_CHANGERS = table(
    "rm rmdir unlink shred truncate tee ln link install rsync dd chmod chown chgrp setfacl patch ed ex mktemp split"
    " csplit unzip"
)
"""Programs that change what they are given, whatever their options."""
_WILD = re.compile(r"[*?\[{]")
_IN_PLACE = table("sed perl ruby yq")
"""Programs that change what they are given with `-i`."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Paths with an owner. `pattern` as it was written, `source` the file and line that says so.

    `root` is the real path of the part without wildcards: whoever removes a directory above it removes them all.
    """

    owner: str
    pattern: str
    source: str
    match: PathPattern
    root: str

    @classmethod
    def of(cls, owner: str, pattern: str, source: str, base: Path) -> Owned:
        """The paths of this pattern below `base`."""
        parts = pattern.removeprefix("./").split("/")
        fixed = next((at for at, part in enumerate(parts) if set(part) & set("*?")), len(parts))
        root = os.path.realpath(base.joinpath(*parts[:fixed]))
        return cls(owner, pattern, source, PathPattern.of(pattern, base, strict=True), root)

    def holds(self, named: str, real: str, deep: bool) -> bool:
        """Whether the path is one of these; with `deep` also whether one of these lies below it."""
        if self.match.named(named) or self.match.real(real) or self.match.named(real):
            return True
        return deep and f"{self.root}/".lower().startswith(f"{real.rstrip('/')}/".lower())


@dataclass(frozen=True, slots=True)
class Fence:
    """What one agent may not change: what is `owned` by others and, with `only`, whatever is not named there.

    `whose` is the role whose fence it is, and `source` the file and line of it.
    """

    owned: tuple[Owned, ...] = ()
    only: tuple[PathPattern, ...] | None = None
    whose: str = ""
    source: str = ""

    def refuses(self, path: Path, *, deep: bool = False) -> Decision | None:
        """The refusal to change this path, by its name and its real path; None where the fence says nothing.

        `deep`: what lies below it is changed as well.
        """
        named, real = os.path.normpath(path), os.path.realpath(path)
        for one in self.owned:
            if one.holds(named, real, deep):
                reason = f"{os.path.basename(named)} belongs to {one.owner}: send {one.owner} a message, or a task."
                return Decision(Verdict.DENY, f"{one.pattern} owned by {one.owner} [{one.source}]", reason)
        if self.only is None or any(one.named(named) and one.real(real) for one in self.only):
            return None
        reason = f"{self.whose} changes only files of its own, and {os.path.basename(named)} is none of them."
        return Decision(Verdict.DENY, f"writes of {self.whose} [{self.source}]", reason)

    def hidden(self) -> Decision:
        """What is said of a change to a file that only the shell will know."""
        source = self.owned[0].source if self.owned else self.source
        reason = "It writes to a file that only the shell will know, and some files belong to others."
        return Decision(Verdict.ASK, f"owners of paths [{source}]", reason)


def changed_by(command: Command) -> Iterator[Path]:
    """Paths that a command is about to change with all below them, as far as its words show.

    These are more than the table of edits knows, which has only what may be allowed.
    """
    words = [word for word in command.words if word is not None]
    name = os.path.basename(words[0]) if words else ""
    arguments = words[1:]
    if name in _IN_PLACE and not any(word.startswith(("-i", "--in-place")) for word in arguments):
        return
    if name not in _CHANGERS and name not in _IN_PLACE:
        return
    for word in arguments:
        path = word.removeprefix("of=") if name == "dd" else word
        if path and not path.startswith("-") and not (name == "dd" and path == word):
            fixed = _WILD.split(path, maxsplit=1)
            path = path if len(fixed) == 1 else os.path.dirname(fixed[0])
            for place in command.places:
                yield Path(os.path.join(place or "/", os.path.expanduser(path)))
