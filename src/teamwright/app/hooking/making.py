"""Making a session's hooks of its settings: where they run, what they see, and who is told.

Knows settings, the queue of requests and the log; does not know when a hook fires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from teamwright.app.ground import Ground
from teamwright.app.hooking.of_session import hooking_of
from teamwright.app.kit import Kit
from teamwright.app.requests.answerers import Answerer
from teamwright.hooks.book import NOTIFICATION, PERMISSION, Hook, HookBook
from teamwright.hooks.firing import Place
from teamwright.hooks.payload import Who
from teamwright.storage.log import EventLog
from teamwright.tools.shell.bash import MANNERS, environment_without, shell


class Asked(Protocol):
    """Who has requests answered: those who are tried in order before anybody else is asked."""

    answerers: list[Answerer]


def make_hooks(
    ground: Ground, log: EventLog, kit: Kit, requests: Asked, own_of: Callable[[str], Sequence[Hook]]
) -> None:
    """Give the kit its hooks: asked before anybody else, and told what a person should look at.

    `own_of` knows the hooks of an agent type's definition.
    """
    settings, root = ground.settings, ground.trust.root
    plugins = () if settings.hooks_off else (hook for plugin in ground.places.plugins for hook in plugin.hooks)
    named = (*settings.hooks, *plugins) if ground.options.hooks else ()
    book = HookBook((*named, *ground.options.own_hooks))
    kept = environment_without(kit.bash.hidden, ground.env)
    own = {"CLAUDE_PROJECT_DIR": str(root), "TEAMWRIGHT_PROJECT_DIR": str(root)}
    place = Place(root, {**kept, **settings.env, **MANNERS, **own}, shell(), kit.jobs.records)
    who = Who(ground.id, ground.home.transcript(ground.cwd, ground.id))
    made = kit.hooking = hooking_of(book, place, who, ground.directory, log.emit)
    made.own_of, made.runs_own = own_of, ground.options.hooks and not settings.hooks_off

    def ask_hooks() -> None:
        if made.answer not in requests.answerers:
            requests.answerers.append(made.answer)

    made.ask_hooks = ask_hooks
    if book.has(PERMISSION):
        ask_hooks()
    if book.has(NOTIFICATION):
        log.subscribe(lambda _number, event: made.noted(event), live=False)
