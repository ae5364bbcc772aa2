"""The construction of a session's hooks from its settings: their environment, input and notices.

Depends on settings, the request queue and the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from teamwright.approvals.request_queue import Answerer
from teamwright.config.plugins import DATA, plugin_hooks
from teamwright.hooks.hook_index import NOTIFICATION, PERMISSION, HookIndex, HookSpec
from teamwright.hooks.hook_outcome import HookOutcome
from teamwright.hooks.hook_runner import HookEnvironment, HookRunner
from teamwright.hooks.payload import HookAgent
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.session.session_hooks import SessionHooks
from teamwright.session.session_preparation import SessionContext
from teamwright.storage.event_log import EventLog
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, remove_variables
from teamwright.tools.shell.startup import plain_shell

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import CommandConfinement
    from teamwright.session.factory.agent_factory import AgentFactory


class AnswererList(Protocol):
    """An object with the answerers of requests, which are tried in order before any approver."""

    answerers: list[Answerer]


def make_hooks(context: SessionContext, log: EventLog, agent_factory: AgentFactory, requests: AnswererList) -> None:
    """Connect hooks to the toolset: they answer before any approver, and notify a person through events."""
    settings, root, toolset = context.settings, context.trust.root, agent_factory.toolset
    used = () if settings.hooks_off else context.places.plugins
    plugins = [hook for plugin in used for hook in plugin_hooks(plugin, context.home)]
    named = (*settings.hooks, *plugins) if context.options.hooks else ()
    book = HookIndex((*named, *context.options.own_hooks))
    kept = remove_variables(toolset.bash.hidden, context.env)
    own = {"CLAUDE_PROJECT_DIR": str(root), "TEAMWRIGHT_PROJECT_DIR": str(root), "CLAUDE_SESSION_ID": context.id}
    env, confine = {**kept, **settings.env, **COMMAND_ENVIRONMENT, **own}, partial(_confine, agent_factory, root)
    place = HookEnvironment(root, env, plain_shell(), toolset.jobs.records, confine)
    who = HookAgent(context.id, context.home.transcript(context.cwd, context.id))

    def tell(text: str, level: str) -> None:
        log.emit(Notice(member=LEAD, text=text, level=level))

    async def call_action(hook: HookSpec, given: Mapping[str, Any]) -> HookOutcome:
        from teamwright.session.hook_calls import call_hook_action  # only hooks of these types load it

        return await call_hook_action(agent_factory, hook, given)

    runs_own, own_of = context.options.hooks and not settings.hooks_off, agent_factory.resolver.hooks_of
    runner = HookRunner(book, place, tell, call_action)
    made = toolset.hooking = SessionHooks(
        runner, who, context.directory, log.emit, own_of, requests.answerers, runs_own=runs_own
    )
    if book.has_hooks(PERMISSION):
        made.answer_requests()
    if book.has_hooks(NOTIFICATION):
        log.subscribe(lambda _number, event: made.notify(event), live=False)


async def _confine(agent_factory: AgentFactory, root: Path, hook: HookSpec) -> CommandConfinement | None:
    """Return the confinement of a hook that asks for it, in the policy *work*. A plugin's hook may change its data."""
    if (sandbox := agent_factory.toolset.use_sandbox()) is None or sandbox.is_off:
        return None
    from teamwright.session.work_confinement import confine_work, lead_gate

    await sandbox.open_network()
    data = dict(hook.variables).get(DATA)
    roots = (root, *agent_factory.policy.scope.directories, *([Path(data)] if data else []))
    return confine_work(sandbox, lead_gate(agent_factory), f"a hook of {hook.event}", roots)
