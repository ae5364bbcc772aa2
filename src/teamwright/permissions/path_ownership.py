"""Path ownership: paths that another member owns, and the only paths that an agent may change.

It applies in every mode, and no rule lifts it: only a person may allow such a change. Depends on path patterns.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from teamwright.permissions.rules import PathPattern
from teamwright.permissions.verdict import Decision, Verdict
from teamwright.storage.real_paths import is_process_link, real_path


class OwnedPaths(Struct, frozen=True):
    """Paths with an owner. `pattern` is as written, `source` the file and line of it.

    `root` is the real path of the part without wildcards: removing a directory above it removes all of them.
    """

    owner: str
    pattern: str
    source: str
    match: PathPattern
    root: str

    @classmethod
    def parse(cls, owner: str, pattern: str, source: str, base: Path) -> OwnedPaths:
        """Return the paths of this pattern below `base`."""
        parts = pattern.removeprefix("./").split("/")
        fixed = next((at for at, part in enumerate(parts) if set(part) & set("*?")), len(parts))
        root = real_path(base.joinpath(*parts[:fixed]))
        return cls(owner, pattern, source, PathPattern.parse(pattern, base, strict=True), root)

    def contains(self, named: str, real: str, deep: bool) -> bool:
        """Return True when the path is one of these; with `deep` also when one of these is below it."""
        if self.match.matches_name(named) or self.match.matches_real(real) or self.match.matches_name(real):
            return True
        return deep and f"{self.root}/".lower().startswith(f"{real.rstrip('/')}/".lower())


class PathOwnership(Struct, frozen=True):
    """The paths that one agent may not change: those `owned_by_others` and, with `allowed_only`, all others except
    these. `role` is the role or task that is limited, and `source` the file and line of it.

    `strict`: such a change is denied, and no person is asked.
    """

    owned_by_others: tuple[OwnedPaths, ...] = ()
    allowed_only: tuple[PathPattern, ...] | None = None
    role: str = ""
    source: str = ""
    strict: bool = False

    def refusal(self, path: Path, *, deep: bool = False) -> Decision | None:
        """Return the refusal of a change to this path, by its name and its real path; None when the change is allowed.

        `deep`: everything below it changes too.
        """
        named, real = os.path.normpath(path), real_path(path)
        if is_process_link(real):
            return self.refuse_unknown()
        for one in self.owned_by_others:
            if one.contains(named, real, deep):
                file = os.path.basename(named)
                reason = f"{file} belongs to the role {one.owner}: a member of it makes the change; send it a message."
                return self._refuse(f"{one.pattern} owned by {one.owner} [{one.source}]", reason)
        if self.allowed_only is None or any(
            one.matches_name(named) and one.matches_real(real) for one in self.allowed_only
        ):
            return None
        reason = f"{self.role} changes only its own files, and {os.path.basename(named)} is none of them."
        return self._refuse(f"writes of {self.role} [{self.source}]", reason)

    def _refuse(self, rule: str, reason: str) -> Decision:
        return Decision(Verdict.DENY if self.strict else Verdict.ASK, rule, reason, needs_person=True)

    def refuse_unknown(self) -> Decision:
        """Return the question about a change to a file whose name only the shell knows."""
        source = self.owned_by_others[0].source if self.owned_by_others else self.source
        reason = "It changes a file that only the shell will know, and some files belong to others."
        return Decision(Verdict.ASK, f"owners of paths [{source}]", reason, needs_person=True)
