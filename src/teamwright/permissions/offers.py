"""Offers: what a person may grant along with a yes, so that a call and its like are not asked about again.

Nothing is offered that its bounds would refuse. Knows a policy; does not know who is asked.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.permissions.book import Scope
from teamwright.permissions.bounds import out_of_bounds
from teamwright.permissions.decide import Policy
from teamwright.permissions.files import place_of
from teamwright.permissions.rule import READERS, WRITERS
from teamwright.permissions.verdict import Access, Decision, Mode, Update, Verdict

_OFFERED_AT_ONCE = 3


def suggestions(tool: str, access: Access, decision: Decision, policy: Policy) -> tuple[Update, ...]:
    """What a person may grant along with a yes, so that this call and its like are not asked about again.

    The directory that it lies in, the mode that accepts edits, else the rule that "always" would store. Nothing for
    what a rule, a guard or a fence asks about, and nothing that `bounds` would refuse.
    """
    if decision.verdict is not Verdict.ASK or not _is_mere(decision):
        return ()
    touched = _touched(tool, access, policy.scope)
    if touched is not None:
        places, changes = touched
        outside = tuple(dict.fromkeys(str(place) for place in places if not _lies_in(place, policy.scope)))
        edits = changes and policy.lasting_mode is Mode.DEFAULT
        fine = len(outside) <= _OFFERED_AT_ONCE and all(_may_be_offered(Path(one), policy.scope) for one in outside)
        if fine and (outside or edits):
            found = (Update("addDirectories", directories=outside),) if outside else ()
            return (*found, Update("setMode", mode=Mode.ACCEPT_EDITS)) if edits else found
    return (Update("addRules", rules=(decision.always,)),) if decision.always else ()


def _is_mere(decision: Decision) -> bool:
    return decision.rule.startswith("mode ") or decision.rule == "git policy"


def _touched(tool: str, access: Access, scope: Scope) -> tuple[list[Path], bool] | None:
    """The directories that a call uses, and whether it changes files in them; None when it does more than that."""
    if access.command is not None:
        from teamwright.permissions.commands import places_of

        return places_of(access, scope)
    if tool in READERS | WRITERS and (access.reads or access.writes):
        return [place_of(path) for path in (*access.reads, *access.writes)], bool(access.writes)
    return None


def _lies_in(place: Path, scope: Scope) -> bool:
    return any(place.is_relative_to(directory) for directory in scope.directories)


def _may_be_offered(place: Path, scope: Scope) -> bool:
    return len(place.parts) > 2 and str(place).isprintable() and not out_of_bounds(place, scope)
