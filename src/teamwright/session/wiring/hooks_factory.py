"""The construction of a session's hooks from its settings: their environment, input and notices.

A hook may start an agent, and an agent has hooks: so hooks find the agent factory when they run. Depends on settings,
the approver and the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from teamwright.approvals.request_queue import Answerer
from teamwright.config.executed_file_digests import git_doubt, hook_digest
from teamwright.config.files_executed_by_settings import bind_all
from teamwright.config.plugins import DATA, plugin_hooks
from teamwright.config.repository_programs import hook_files
from teamwright.git.repository import work_tree
from teamwright.hooks.hook_actions import HttpLimits
from teamwright.hooks.hook_definitions import ENV_FILE_EVENTS, NOTIFICATION, PERMISSION, HookSpec
from teamwright.hooks.hook_index import HookIndex
from teamwright.hooks.hook_outcome import HookOutcome
from teamwright.hooks.hook_runner import HookEnvironment, HookRunner
from teamwright.hooks.payload import HookAgent
from teamwright.permissions.verdict import Approver
from teamwright.processes.process_records import ProcessRecords
from teamwright.protocol.events import Notice, RequestOpened, RunEnded
from teamwright.protocol.ids import LEAD
from teamwright.session.preparation import SessionContext
from teamwright.session.session_hooks import SessionHooks
from teamwright.session.wiring.telemetry import call_trace
from teamwright.storage.event_log import EventLog
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, BashSettings, remove_variables
from teamwright.tools.shell.startup import plain_shell

if TYPE_CHECKING:
    from teamwright.hooks.session_variables import SessionVariables
    from teamwright.sandbox.sandbox import CommandConfinement
    from teamwright.session.agents.factory import AgentFactory


FindFactory: TypeAlias = Callable[[], "AgentFactory"]
"""Returns the agent factory of the process, once it is made."""


class AnsweringApprover(Approver, Protocol):
    """An approver with the answerers that are tried in order before it."""

    answerers: list[Answerer]


_CACHE = {"PYTHONPYCACHEPREFIX": os.path.join(os.devnull, "none")}
"""Python compiles again: a cached file in the project could be another program than the script that was trusted."""


def make_hooks(
    context: SessionContext,
    log: EventLog,
    *,
    approver: AnsweringApprover,
    bash: BashSettings,
    records: ProcessRecords | None,
    own_of: Callable[[str], Sequence[HookSpec]],
    variables: Callable[[], SessionVariables],
    find_factory: FindFactory,
) -> SessionHooks:
    """Create the hooks of a session: they answer before the approver, and notify a person through events.

    `own_of` returns the hooks of an agent type's definition.
    """
    settings = context.settings
    root = context.trust.root
    used = () if settings.hooks_off else context.places.plugins
    plugins = bind_all((hook for plugin in used for hook in plugin_hooks(plugin, context.home)), root)
    named = (*settings.hooks, *plugins) if context.options.hooks else ()
    book = HookIndex((*named, *context.options.own_hooks))
    visible_env = remove_variables(bash.hidden, context.env)
    own = {"CLAUDE_PROJECT_DIR": str(root), "TEAMWRIGHT_PROJECT_DIR": str(root), "CLAUDE_SESSION_ID": context.id}
    own |= _CACHE
    limits = HttpLimits(settings.hook_urls, settings.hook_variables)
    fixed = {**settings.person_env, **COMMAND_ENVIRONMENT, **own}
    place = HookEnvironment(
        root,
        {**visible_env, **settings.env, **COMMAND_ENVIRONMENT, **own},
        plain_shell(),
        records,
        partial(_confine, find_factory, root, variables),
        limits,
        lambda hook: hook_digest(root, hook, hook_files(root, hook)),
        fixed,
        partial(git_doubt, trusted=context.trust.trusted_git),
        variables,
        call_trace(context),
    )

    def tell(text: str, level: str) -> None:
        log.emit(Notice(member=LEAD, text=text, level=level))

    async def call_action(hook: HookSpec, payload: Mapping[str, Any]) -> HookOutcome:
        from teamwright.session.wiring.hook_action_calls import call_hook_action  # only hooks of these types load it

        return await call_hook_action(find_factory(), hook, payload)

    session_hooks = SessionHooks(
        HookRunner(book, place, tell, call_action, log.emit),
        HookAgent(context.id, context.home.transcript(context.cwd, context.id)),
        context.directory,
        log.emit,
        lambda kind: list(bind_all(own_of(kind), root)),
        approver.answerers,
        runs_own=context.options.hooks and not settings.hooks_off,
    )
    if book.has_hooks(PERMISSION):
        session_hooks.answer_requests()
    if book.has_hooks(NOTIFICATION):
        log.subscribe(lambda _number, event: session_hooks.notify(event), kinds=(RequestOpened, RunEnded))
    return session_hooks


async def _confine(
    find: FindFactory, root: Path, variables: Callable[[], SessionVariables], hook: HookSpec, cwd: Path
) -> CommandConfinement | None:
    """Return the confinement of a hook that needs one, in the policy *work*, at an event of an agent in `cwd`.

    A plugin's hook may change its data, each hook the worktree of the agent, and one that sets variables their file.
    """
    agent_factory = find()
    if (session := agent_factory.toolset.use_sandbox()) is None:
        return None
    if (sandbox := session.narrowed(agent_factory.lead_inheritance.sandbox)).is_off:
        return None
    from teamwright.session.wiring.program_confinement import confine_line, confine_work, lead_gate, work_request

    gate = lead_gate(agent_factory)
    program = f"a hook of {hook.event}"
    roots = [root, *agent_factory.policy.scope.directories]
    tree = work_tree(cwd)
    if tree is not None and tree not in roots:
        roots.append(tree)
    if hook.event in ENV_FILE_EVENTS:
        roots.append(variables().path.parent)
    if hook.confined_because:
        return await confine_line(sandbox, gate, program, roots, hook.command_line, root)
    await sandbox.open_network(work_request(()))
    data = dict(hook.variables).get(DATA)
    return confine_work(sandbox, gate, program, (*roots, *([Path(data)] if data else [])))
