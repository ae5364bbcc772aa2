"""Assets of skills and commands, the user's and the repository's: callable, shadowed or with remarks.

Depends on the directories that a run searches. An untrusted entry of a repository is not opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from teamwright.config.skill_sources import repository_places, user_places
from teamwright.skills.skill_definition import SkillDefinition
from teamwright.skills.skill_search import SkillDirectory, find_skills
from teamwright.views.asset_check.asset import Asset, State, display_path, parse_location, remark_state
from teamwright.views.asset_check.check_subject import CheckSubject

GROUPS = {"skill": "skills", "command": "commands"}
_TRUST = "teamwright trust shows it"


def skill_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield all skills and commands, in order of precedence."""
    settings = subject.survey.settings
    own = user_places(subject.asked.home, subject.compat)
    known = {os.path.realpath(place.directory) for place in own}
    theirs = repository_places(subject.trust, subject.compat)
    theirs = [place for place in theirs if os.path.realpath(place.directory) not in known]
    yield from found_assets(subject, [*own, *theirs], {})
    for entry in subject.trust.entries:
        mine = os.path.realpath(os.path.dirname(subject.root / entry.file)) in known
        if entry.kind in GROUPS and not mine and not subject.trust.allows(entry):
            off = entry.name.lower() in settings.skills_off
            state: State = "ignored" if off else "needs trust"
            file = str(subject.root / entry.file)
            yield Asset(GROUPS[entry.kind], entry.name, state, file, 0, "skills.disabled names it" if off else _TRUST)


def found_assets(
    subject: CheckSubject, places: list[SkillDirectory], first: dict[tuple[str, str], str]
) -> Iterator[Asset]:
    """Yield the skills in these directories; `first` has the file that already defines each name."""
    for place in places:
        found = find_skills(place)
        told = {problem for recipe in found.definitions for problem in recipe.problems}
        for recipe in found.definitions:
            yield from _recipe(subject, recipe, first)
        for path, why in found.skipped:
            yield Asset(GROUPS[place.kind], path.name, "ignored", str(path), 0, why)
        for problem in found.problems:
            if problem not in told:
                file, line, why = parse_location(problem.removesuffix("; left out"))
                state: State = "ignored" if "leads out" in why or "only the first" in why else "broken"
                yield Asset(GROUPS[place.kind], file.rpartition("/")[2], state, file, line, why)


def _recipe(subject: CheckSubject, recipe: SkillDefinition, first: dict[tuple[str, str], str]) -> Iterator[Asset]:
    group, file, settings = GROUPS[recipe.kind], str(recipe.file), subject.survey.settings
    key = (recipe.kind, recipe.name.lower())
    if not settings.skills:
        yield Asset(group, recipe.name, "ignored", file, 0, "skills.enabled is off")
        return
    if key[1] in settings.skills_off:
        yield Asset(group, recipe.name, "ignored", file, 0, "skills.disabled names it")
        return
    if key in first:
        yield Asset(group, recipe.name, "ignored", file, 0, f"{display_path(first[key], subject.cwd)} is nearer")
        return
    first[key] = file
    yield Asset(group, recipe.name, "used", file)
    for problem in recipe.problems:
        _, line, what = parse_location(problem, file)
        yield Asset(group, recipe.name, remark_state(what), file, line, what)
