"""A command that a person calls, from the terminal, from a flag or from a program: told to the lead, or run apart.

One way for all faces. Knows sessions, shelves and how words are prepared; knows no screen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from teamwright.agent.agent import Agent, TurnEnd
from teamwright.app.models_of import require_price
from teamwright.app.result import Result
from teamwright.app.session import Session
from teamwright.app.skills.preparing import Called, prepare, rules_of
from teamwright.app.skills.turn import ForTurn
from teamwright.app.skills.words import command_of
from teamwright.hooks.book import PROMPT
from teamwright.hooks.payload import user_prompt_submit
from teamwright.protocol.blocks import Block, text_of
from teamwright.protocol.envelope import UNKEYED, harmless
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.skills.recipe import Recipe
from teamwright.teams.agents.ports import FromCall
from teamwright.teams.agents.run import Run
from teamwright.teams.spec import SpawnSpec

__all__ = ["CommandLine", "call_command", "command_lines", "command_of", "find_command", "run_command"]

SUBAGENT = "general-purpose"

_OUT_OF_TIME = TurnEnd("limit", limit="time")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command as it is listed: `/name`, its arguments, what it does, where it comes from."""

    name: str
    hint: str
    about: str
    place: str


def command_lines(session: Session) -> list[CommandLine]:
    """The commands and skills that a person may call here, by name."""
    found = session.maker.kit.shelf.for_people
    return [CommandLine(f"/{one.name}", one.hint, one.line, one.place) for one in found]


def offered_names(session: Session) -> dict[str, list[str]]:
    """Return what a program finds here, by kind: slash commands without the slash, agent types, skills."""
    maker = session.maker
    return {
        "slash_commands": [one.name.removeprefix("/") for one in command_lines(session)],
        "agents": [name for name in maker.resolver.kinds.known() if maker.policies.may_start(name)],
        "skills": [one.name for one in maker.kit.shelf.used if one.kind == "skill"],
    }


def find_command(session: Session, name: str) -> Recipe:
    """The command of that name. Raises UsageError with the nearest and the others."""
    return session.maker.kit.shelf.command(name.removeprefix("/"))


async def call_command(session: Session, name: str, arguments: str) -> str:
    """Call a command while the session lives: the lead is told, and works on it; or a sub-agent answers.

    Returns the sub-agent's answer, or nothing. Raises TeamwrightError; then nobody was told anything.
    """
    called = Called(find_command(session, name), arguments)
    if called.recipe.forks:
        run = await _forked(session, called)
        if run.background:
            return f"{called.line} runs in the background as {run.id}; the lead is notified when it ends."
        end = _end_of(session, called, run)
        return end.text or end.why or "(the sub-agent said nothing)"
    hold, words = await _words(session, called)
    hold.begin()
    session.lead.prompt(words)
    return ""


async def run_command(session: Session, name: str, arguments: str, before: str = "") -> Result:
    """Call a command and see it through, as `Session.run` does with a prompt. `before` is what stdin brought.

    Raises TeamwrightError when it cannot be called; then nobody was told anything.
    """
    called = Called(find_command(session, name), arguments, before)
    if called.recipe.forks:
        run = await _seen_through(session, _forked(session, called))
        if run is not None and run.background:
            return await session.run(())  # the lead is told when it ends, and answers
        return await session.end_of(_end_of(session, called, run) if run is not None else _OUT_OF_TIME)
    hold, words = await _words(session, called)
    hold.begin()
    try:
        return await session.run(words)
    finally:
        hold.end()


async def _seen_through(session: Session, work: Coroutine[Any, Any, Run]) -> Run | None:
    """The sub-agent that nobody waits for any more; None when the cap on time is spent."""
    purse = session.maker.purse
    minutes, passed = purse.budget.minutes, time.monotonic() - session.started
    cap = asyncio.timeout(None if minutes is None else max(0.0, minutes * 60 - passed))
    try:
        async with cap:
            return await work
    except TimeoutError:
        if not cap.expired():
            raise
        purse.out_of_time()
        return None


async def _words(session: Session, called: Called) -> tuple[ForTurn, list[Block]]:
    """What the lead will be told, and what holds while it works on it: not yet begun."""
    recipe = called.recipe
    rules, model = rules_of(session, recipe), None
    if recipe.model is not None:
        try:
            model = await session.models.open(recipe.model, LEAD)
        except TeamwrightError as problem:
            raise _of(recipe, problem) from None
        require_price(session.maker.purse.given.usd, model.card)
    with ForTurn(session, rules):  # what the command allows holds for its own shell lines too
        return ForTurn(session, rules, model), await prepare(session, called)


async def _forked(session: Session, called: Called) -> Run:
    """A sub-agent that was given the command's words: it has ended, or is in the background and the lead is told.

    Raises TeamwrightError when it cannot start.
    """
    recipe, agents = called.recipe, session.agents
    rules = rules_of(session, recipe)

    def ready(agent: Agent) -> None:
        agent.policy.granted = (*agent.policy.granted, *rules)

    with ForTurn(session, rules):
        words = UNKEYED.with_files(await prepare(session, called))
        text = "\n".join([text_of(words), *await _contexts(session, words)])
        spec = SpawnSpec(text, description=called.line[:60], agent_type=recipe.agent or SUBAGENT, model=recipe.model)
        try:
            run = await agents.start(spec, LEAD, FromCall(), background=agents.in_background(False), ready=ready)
        except UsageError as problem:
            raise _of(recipe, problem) from None
        if not run.background:
            await agents.in_foreground(run)
    return run


def _of(recipe: Recipe, problem: TeamwrightError) -> TeamwrightError:
    """The error with the file of the command that asks for what is not there."""
    looked_at = [*problem.looked_at, ("asked by", f"/{recipe.name}, {recipe.file}")]
    unknown = any(label == "types" for label, _ in problem.looked_at)
    do = ["correct `agent` there, or leave it out"] if unknown else problem.do
    return type(problem)(problem.slug, problem.what, looked_at=looked_at, do=do, note="nothing was sent")


def _end_of(session: Session, called: Called, run: Run) -> TurnEnd:
    """What the sub-agent answered; the lead is told along with its next words, whatever is killed meanwhile.

    Raises what ended it before it said anything.
    """
    if run.error is not None and not run.text:
        session.agents.settle([run.id])
        raise run.error
    end = run.end or TurnEnd("failed", run.text, reason=run.why)
    told = f"The user had a sub-agent run {harmless(called.line)}. It answered:\n{harmless(end.text or end.why)}"
    session.lead.keep(told, run.notice_key)
    session.agents.settle([run.id])
    return end


async def _contexts(session: Session, words: Sequence[Block]) -> list[str]:
    """What hooks that see every prompt add to these words. Raises TeamRefused when one refuses them."""
    hooks = session.lead.agent.hooks
    if not hooks.hooks.wants(PROMPT):
        return []
    said = await hooks.fire(PROMPT, lambda: user_prompt_submit(text_of(words)))
    if said.blocked or said.halted:
        raise TeamRefused("hook-refused", f"a hook refused the prompt: {said.reason or said.halt_reason}")
    return [f"A hook of the user adds:\n{context}" for context in said.contexts]
