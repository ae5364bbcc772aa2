"""Changes of a member's incarnation in the state of its team. Depends on the port of documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from teamwright.permissions.verdict import Mode
from teamwright.protocol.budget import Budget
from teamwright.teams.document import Document
from teamwright.teams.incarnation import Incarnation
from teamwright.teams.team_file import TeamFile


async def begin_incarnation(state: Document[TeamFile], name: str, make: Callable[[int], Incarnation]) -> Incarnation:
    """Record one more incarnation of a member; `make` receives its number, from 1, never used twice for a name."""
    made: Incarnation | None = None

    def begun(file: TeamFile) -> TeamFile:
        nonlocal made
        made = make(file.next_incarnation(name))
        return file.with_incarnation(name, made)

    await state.change(begun)
    assert made is not None
    return made


async def save_budget(state: Document[TeamFile], name: str, budget: Budget) -> None:
    """Record the caps of the member's incarnation, also for a resume."""
    await _change_incarnation(state, name, lambda life: replace(life, budget=budget))


async def save_location(state: Document[TeamFile], name: str, location: Mapping[str, Any] | None) -> None:
    """Record the location of the member's separate process; None: it runs in the lead's from now on."""
    await _change_incarnation(state, name, lambda life: replace(life, place=location))


async def save_model(state: Document[TeamFile], name: str, model: str) -> None:
    """Record the model of the member's incarnation, also for a resume."""
    await _change_incarnation(state, name, lambda life: replace(life, model=model))


async def save_mode(state: Document[TeamFile], name: str, mode: Mode) -> None:
    """Record the permission mode of the member's incarnation, also for a resume; `bubble`: its lead's."""
    await _change_incarnation(state, name, lambda life: replace(life, mode="" if mode is Mode.BUBBLE else str(mode)))


async def _change_incarnation(
    state: Document[TeamFile], name: str, change: Callable[[Incarnation], Incarnation]
) -> None:
    """Change the present incarnation of that name; does nothing without one. Raises StorageError, LockTimeout."""

    def changed(file: TeamFile) -> TeamFile:
        life = file.incarnation_records.get(name.lower())
        return (
            file
            if life is None
            else replace(file, incarnation_records={**file.incarnation_records, name.lower(): change(life)})
        )

    await state.change(changed)
