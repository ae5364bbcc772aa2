"""Calls of slash commands by a person, from the terminal, a flag or a program: for the lead, or in a sub-agent.

A command grants allowed calls and a model for one turn: from the call until the lead is idle again; with a working
lead, until the end of its next turn. Its shell lines are Bash calls of the lead, with hooks, rules, questions and the
log. Only files that the lead may read without a question are attached.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from teamwright.agent.agent import Agent, TurnEnd
from teamwright.hooks.hook_definitions import EXPANSION, USER_PROMPT
from teamwright.hooks.payload import prompt_expansion, user_prompt_submit
from teamwright.models.model import Model, Prefix
from teamwright.models.request_prefix import prefix_for_model
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Access, Verdict
from teamwright.protocol.errors import StorageError, TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.events import MemberChanged, ModelChanged, TeamEvent
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import Block, ToolCall, message_text, text_block
from teamwright.protocol.runtime_tags import NO_KEY_TAGS, escape_tags
from teamwright.protocol.time_limit import time_limit
from teamwright.session.agents.model_sources import require_price
from teamwright.session.options import TRAILING_SIGNS, read_attachment
from teamwright.session.result import Result
from teamwright.session.server_prompts import (
    find_server_prompt,
    is_server_prompt,
    list_server_prompts,
    prompt_aliases,
    prompt_blocks,
)
from teamwright.session.session import Session
from teamwright.skills.skill_definition import (
    MAX_PIECES,
    SkillDefinition,
    TemplatePiece,
    UnsafeArgument,
    fill_pieces,
    split_template,
)
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.subagents.subagent_settings import CallRef
from teamwright.team_records.spawn_spec import SpawnSpec

SUBAGENT = "general-purpose"

_OUT_OF_TIME = TurnEnd("limit", limit="time")


class CommandInfo(Struct, frozen=True):
    """A command in a list: `/name`, its arguments, its description, its source."""

    name: str
    hint: str
    about: str
    place: str


class CommandCall(Struct, frozen=True):
    """A command that a person called, with its arguments; `before` is the text of stdin."""

    skill: SkillDefinition
    arguments: str = ""
    before: str = ""

    @property
    def line(self) -> str:
        """The command as it was typed."""
        return f"/{self.skill.name} {self.arguments}".strip()


def list_commands(session: Session) -> list[CommandInfo]:
    """Return the commands and skills that a person may call here, by name."""
    found = session.agent_factory.toolset.shelf.for_users
    own = [CommandInfo(f"/{one.name}", one.argument_hint, one.one_line, one.location) for one in found]
    names = {one.name for one in own}
    served = [
        CommandInfo(f"/{one.name}", one.hint, one.prompt.description, f"MCP server {one.server.name}")
        for one in list_server_prompts(session)
    ]
    return [*own, *(one for one in served if one.name not in names)]


def callable_names(session: Session) -> list[str]:
    """Return every name by which a person may call a command, with its slash."""
    return [*(one.name for one in list_commands(session)), *prompt_aliases(session)]


def offered_names(session: Session) -> dict[str, list[str]]:
    """Return what a program finds here, by kind: slash commands without the slash, agent types, skills."""
    agent_factory = session.agent_factory
    return {
        "slash_commands": [one.name.removeprefix("/") for one in list_commands(session)],
        "agents": [
            name for name in agent_factory.resolver.agent_types.active() if agent_factory.policies.may_start(name)
        ],
        "skills": [one.name for one in agent_factory.toolset.shelf.callable_skills if one.kind == "skill"],
    }


def find_command(session: Session, name: str) -> SkillDefinition:
    """Return the command of that name. Raises UsageError with the nearest and the others."""
    return session.agent_factory.toolset.shelf.get_command(name.removeprefix("/"))


async def call_command(session: Session, name: str, arguments: str) -> str:
    """Call a command in a running session: the lead works on its prompt, or a sub-agent answers.

    Returns the sub-agent's answer, or an empty text. Raises TeamwrightError; then no prompt was sent.
    """
    await _ask_expansion_hooks(session, name, arguments)
    if _is_of_server(session, name):
        session.lead.add_prompt(await _server_prompt(session, name, arguments))
        return ""
    called = CommandCall(find_command(session, name), arguments)
    if called.skill.runs_in_subagent:
        run = await _run_in_subagent(session, called)
        if run.background:
            return f"{called.line} runs in the background as {run.id}; the lead is notified when it ends."
        end = _end_of(session, called, run)
        return end.text or end.explanation or "(the sub-agent said nothing)"
    hold, words = await _words(session, called)
    hold.begin()
    session.lead.add_prompt(words)
    return ""


async def run_command(session: Session, name: str, arguments: str, before: str = "") -> Result:
    """Call a command and carry it out, as `Session.run` does with a prompt. `before` is the text of stdin.

    Raises TeamwrightError when it cannot be called; then no prompt was sent.
    """
    await _ask_expansion_hooks(session, name, arguments)
    if _is_of_server(session, name):
        blocks = [text_block(before)] if before.strip() else []
        return await session.run([*blocks, *await _server_prompt(session, name, arguments)])
    called = CommandCall(find_command(session, name), arguments, before)
    if called.skill.runs_in_subagent:
        run = await _wait_for_subagent(session, _run_in_subagent(session, called))
        if run is not None and run.background:
            return await session.run(())  # the lead is notified at its end, and answers
        return await session.result_of_turn(_end_of(session, called, run) if run is not None else _OUT_OF_TIME)
    hold, words = await _words(session, called)
    hold.begin()
    try:
        return await session.run(words)
    finally:
        hold.end()


def require_command(session: Session, name: str) -> None:
    """Raise UsageError, with the nearest name, when there is no command of that name."""
    if not _is_of_server(session, name):
        find_command(session, name)


def _is_of_server(session: Session, name: str) -> bool:
    """Return True for a prompt of an MCP server. A command or skill of the same name has precedence."""
    plain = name.removeprefix("/")
    shelf = session.agent_factory.toolset.shelf
    return is_server_prompt(session, plain) and not any(one.name == plain for one in shelf.for_users)


async def _server_prompt(session: Session, name: str, arguments: str) -> list[Block]:
    return await prompt_blocks(session, await find_server_prompt(session, name), arguments)


async def _wait_for_subagent(session: Session, work: Coroutine[Any, Any, SubagentRun]) -> SubagentRun | None:
    """Wait for a sub-agent and return it; None at the cap on time."""
    budget_tracker = session.agent_factory.budget_tracker
    minutes = budget_tracker.budget.minutes
    passed = time.monotonic() - session.started
    cap: asyncio.Timeout | None = None
    try:
        async with time_limit(None if minutes is None else max(0.0, minutes * 60 - passed)) as cap:
            return await work
    except TimeoutError:
        if cap is None or not cap.expired():
            raise
        budget_tracker.out_of_time()
        return None


async def _words(session: Session, called: CommandCall) -> tuple[TurnGrants, list[Block]]:
    """Return the prompt for the lead, and the grants for its turn, which have not begun."""
    skill = called.skill
    rules = rules_of(session, skill)
    model = None
    if skill.model is not None:
        try:
            model = await session.models.open(skill.model, LEAD)
        except TeamwrightError as problem:
            raise _of(skill, problem) from None
        require_price(session.agent_factory.budget_tracker.stated_budget.usd, model.card)
    with TurnGrants(session, rules):  # the command's rules also apply to its own shell lines
        return TurnGrants(session, rules, model), await prepare_prompt(session, called)


async def _run_in_subagent(session: Session, called: CommandCall) -> SubagentRun:
    """Run a sub-agent with the command's prompt. Return it when it has ended or moved to the background.

    Raises TeamwrightError when it cannot start.
    """
    skill = called.skill
    agents = session.agents
    rules = rules_of(session, skill)

    def ready(agent: Agent) -> None:
        agent.policy.grant(rules)

    with TurnGrants(session, rules):
        words = NO_KEY_TAGS.with_files(await prepare_prompt(session, called))
        text = "\n".join([message_text(words), *await _contexts(session, words)])
        spec = SpawnSpec(text, description=called.line[:60], agent_type=skill.agent or SUBAGENT, model=skill.model)
        try:
            run = await agents.start(
                spec, LEAD, CallRef(), background=agents.runs_in_background(False), before_first_turn=ready
            )
        except UsageError as problem:
            raise _of(skill, problem) from None
        if not run.background:
            await agents.wait_in_foreground(run)
    return run


def _of(skill: SkillDefinition, problem: TeamwrightError) -> TeamwrightError:
    """Return the error with the file of the command that names the missing thing."""
    looked_at = [*problem.looked_at, ("asked by", f"/{skill.name}, {skill.file}")]
    unknown = any(label == "types" for label, _ in problem.looked_at)
    do = ["correct `agent` there, or leave it out"] if unknown else problem.do
    return type(problem)(problem.slug, problem.what, looked_at=looked_at, do=do, note="nothing was sent")


def _end_of(session: Session, called: CommandCall, run: SubagentRun) -> TurnEnd:
    """Return the sub-agent's answer, and store it for the lead's next turn, safe against a kill.

    Raises the error that ended it before an answer.
    """
    if run.error is not None and not run.text:
        session.agents.mark_reported([run.id])
        raise run.error
    end = run.end or TurnEnd("failed", run.text, reason=run.failure_reason)
    answer = escape_tags(end.text or end.explanation)
    note = f"The user had a sub-agent run {escape_tags(called.line)}. It answered:\n{answer}"
    session.lead.save_note(note, run.notice_key)
    session.agents.mark_reported([run.id])
    return end


async def _ask_expansion_hooks(session: Session, name: str, arguments: str) -> None:
    """Run the hooks before a typed command becomes a prompt. Raises TeamRefused when a hook refuses it."""
    hooks = session.lead.agent.hooks
    plain = name.removeprefix("/")
    if not hooks.hooks.wants(EXPANSION):
        return
    kind, source = ("mcp_prompt", "mcp") if _is_of_server(session, name) else ("slash_command", "")
    source = source or find_command(session, name).location
    outcome = await hooks.fire(EXPANSION, lambda: prompt_expansion(kind, plain, arguments, source), plain)
    if outcome.blocked or outcome.halted:
        raise TeamRefused("hook-refused", f"a hook refused /{plain}: {outcome.reason or outcome.halt_reason}")
    for context in outcome.contexts:
        session.lead.add_note(escape_tags(context))


async def _contexts(session: Session, words: Sequence[Block]) -> list[str]:
    """Return the contexts that hooks add to this prompt. Raises TeamRefused when a hook refuses it."""
    hooks = session.lead.agent.hooks
    if not hooks.hooks.wants(USER_PROMPT):
        return []
    outcome = await hooks.fire(USER_PROMPT, lambda: user_prompt_submit(message_text(words)))
    if outcome.blocked or outcome.halted:
        raise TeamRefused("hook-refused", f"a hook refused the prompt: {outcome.reason or outcome.halt_reason}")
    return [f"A hook of the user adds:\n{context}" for context in outcome.contexts]


class TurnGrants(Struct):
    """Rules, and a model, for a turn of the lead, or the rules alone for a block. `end` may be called twice."""

    session: Session
    rules: tuple[Rule, ...] = ()
    model: Model | None = None
    _turns: int = 1
    _before: tuple[Model, Prefix, Prefix] | None = None
    _unsubscribe: Callable[[], None] | None = None

    def __enter__(self) -> TurnGrants:
        """Apply the rules inside the block, in which no prompt is sent to the lead."""
        self._allow()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Apply rules and model until the end of the turn with the following prompt."""
        lead = self.session.lead
        self._allow()
        self._turns = 2 if lead.busy else 1
        if self.model is not None and not lead.busy:
            agent = lead.agent
            settings = self.session.agent_factory.toolset.model_settings
            prefix = agent.conversation.prefix
            moved = prefix_for_model(prefix, self.model.card, settings)
            self._before = (agent.model, prefix, moved)
            agent.use_model(self.model, moved)
        if self.rules or self._before is not None:
            self._unsubscribe = self.session.log.subscribe(lambda _n, event: self._happened(event), live=False)

    def _allow(self) -> None:
        for policy in self._policies():
            policy.grant(self.rules)

    def end(self) -> None:
        """Remove rules and model."""
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()
        for policy in self._policies():
            policy.revoke(self.rules)
        before, self._before = self._before, None
        agent = self.session.lead.agent
        if before is not None and agent.model is self.model:
            now = agent.conversation.prefix
            agent.use_model(before[0], before[1] if now is before[2] else now)

    def _policies(self) -> Sequence[Policy]:
        own = self.session.lead.agent.policy
        run = self.session.agent_factory.policy
        return (own,) if own is run else (own, run)

    def _happened(self, event: TeamEvent) -> None:
        if isinstance(event, ModelChanged) and event.member == LEAD:
            self._before = None  # another model was chosen since
        if isinstance(event, MemberChanged) and event.member == LEAD and event.state is MemberState.IDLE:
            self._turns -= 1
        if self._turns == 0 or self.session.lead.refusal_reason:
            self.end()


def rules_of(session: Session, skill: SkillDefinition) -> tuple[Rule, ...]:
    """Return the calls that the command allows, as rules. Raises UsageError for an invalid one.

    Rules of a trusted repository also allow the git commands that they name; those of a plugin do not.
    """
    base = session.agent_factory.policy.scope.base
    own = not skill.is_from_repository
    trusted = skill.is_from_repository and not skill.location.startswith("plugin ")
    source = f"/{skill.name}"
    allowed = session.agent_factory.toolset.shelf.allowed_tools(skill)
    return tuple(parse_rules(allowed, Verdict.ALLOW, source, base, by_user=own, trusted=trusted))


async def prepare_prompt(session: Session, called: CommandCall) -> list[Block]:
    """Return the prompt of the command. Raises UsageError when it may not, or cannot, be called.

    A refused shell line ends the command, and nothing is sent. A failing one is included with its exit code.
    """
    skill = called.skill
    shelf = session.agent_factory.toolset.shelf
    body = await asyncio.to_thread(shelf.read_body, skill)
    parts = await asyncio.to_thread(split_template, body)
    busy = [part for part in parts if part.kind != "text"]
    if len(busy) > MAX_PIECES:
        what = f"/{skill.name} has {len(busy)} shell lines and files; {MAX_PIECES} is the most"
        raise UsageError("usage", what, looked_at=[("file", str(skill.file))], note="nothing was run")
    try:
        parts = fill_pieces(parts, shelf.parse_arguments(skill, called.arguments))
    except UnsafeArgument as problem:
        raise UsageError(
            "usage",
            f"/{skill.name} puts its arguments into a shell line, which takes plain words only",
            looked_at=[("argument", str(problem)[:80])],
            do=["leave out quotes, parentheses and other signs that a shell reads"],
            note="nothing was run",
        ) from None
    text, files = await _assemble(session, called, parts)
    blocks = [text_block(part) for part in (called.before.strip("\n"), text) if part.strip()]
    return [*blocks, *await asyncio.to_thread(_attachments, session, files)]


async def _assemble(session: Session, called: CommandCall, parts: Sequence[TemplatePiece]) -> tuple[str, list[str]]:
    """Return the text with the output of its shell lines, and the names of files in it."""
    pieces: list[str] = []
    files: list[str] = []
    for part in parts:
        match part.kind:
            case "shell":
                pieces.append(await _shell_output(session, called.skill, part.text))
            case "file":
                files.append(part.text)
                pieces.append(f"@{part.text}")
            case _:
                pieces.append(part.text)
    text = "".join(pieces).strip()
    if not text and not files:
        raise UsageError("usage", f"/{called.skill.name} says nothing", looked_at=[("file", str(called.skill.file))])
    return text, files


async def _shell_output(session: Session, skill: SkillDefinition, command: str) -> str:
    """Return the output of a shell line. Raises UsageError when it was not allowed."""
    denied = len(session.agent_factory.denials)
    use = f"command_{message_id()}"
    call = ToolCall(use, "Bash", {"command": command, "description": f"for /{skill.name}"})
    result = await session.lead.agent.toolbox.run_call(call)
    text = result.content if isinstance(result.content, str) else "".join(b.get("text", "") for b in result.content)
    refused = next((one for one in session.agent_factory.denials[denied:] if one.tool_use_id == use), None)
    if refused is not None:
        mere = refused.rule.startswith("mode ")  # no rule forbids it, so a rule may allow it
        raise UsageError(
            "usage",
            f"a shell line of /{skill.name} was not allowed: {refused.reason.rstrip('.')}",
            looked_at=[("command", " ".join(command.split())[:200]), ("rule", refused.rule)],
            do=[f"allowed-tools: Bash({command.split()[0]}:*) in {skill.file} would allow it"] if mere else [],
            note="nothing was sent",
        )
    return text


def _attachments(session: Session, names: Sequence[str]) -> list[Block]:
    """Return the files as blocks, each once; a sentence for an unreadable one. Names without a file stay text."""
    cwd = session.agent_factory.work_directory
    found: dict[Path, Block] = {}
    for name in names:
        path = next((p for form in (name, name.rstrip(TRAILING_SIGNS)) if (p := _file(form, cwd)) is not None), None)
        if path is None or path in found:
            continue
        access = Access(reads=(path,))
        if session.agent_factory.policy.decide("Read", access).verdict is not Verdict.ALLOW:
            found[path] = text_block(f"[@{name} was not attached: the lead may not read it without a question]")
            continue
        try:
            found[path] = read_attachment(path, cwd)
        except (UsageError, StorageError) as problem:
            found[path] = text_block(f"[@{name} was not attached: {problem.what}]")
    return list(found.values())


def _file(name: str, cwd: Path) -> Path | None:
    try:
        path = Path(os.path.realpath(cwd / os.path.expanduser(name)))
        return path if name and path.is_file() else None
    except (OSError, ValueError):
        return None
