"""The tools that agents get, each made for its caller.

The only place that lists tools. What an agent may have of them is decided by its definition and its policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from teamwright import tools as tool_classes
from teamwright.agent.agent_type import NOT_FOR_SUBAGENTS, AgentType, covers
from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.plan_mode import PlanApproval, PlanMode
from teamwright.agent.prompt import gets_compact_prompt
from teamwright.agent.tool import AnyTool, ToolContext, ToolResult
from teamwright.models.model import ModelCard
from teamwright.models.model_settings import ModelSettings
from teamwright.permissions.verdict import Approver
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings
from teamwright.session.mcp_servers import SessionMcpServers
from teamwright.session.session_hooks import SessionHooks
from teamwright.skills.skill_catalog import SkillCatalog, list_for_model
from teamwright.subagents.registry import Subagents
from teamwright.teams.blocked_state import blocked_callback
from teamwright.teams.team import SessionTeam
from teamwright.tools.built_in import BuiltInTool, fork_text
from teamwright.tools.caller import Caller
from teamwright.tools.deferred_tools import no_tool_search, offer_tools
from teamwright.tools.shell.bash_settings import BashSettings

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import Sandbox
    from teamwright.session.agents.agent_workspace import AgentWorkspace
    from teamwright.session.agents.web_search import SessionSearch
    from teamwright.team_records.spawn_spec import SpawnSpec
    from teamwright.tools.shell.startup import ShellStartup
    from teamwright.tools.skill_tool import RunFork
    from teamwright.tools.team.send_message import PermissionAnswers, StopRequests

PLAN_TOOLS = frozenset({"EnterPlanMode", "ExitPlanMode"})
"""Tools of agents that can plan, with a state for each agent."""


class Toolset(Struct):
    """The tools of agents. `extra` are the program's own."""

    jobs: BackgroundJobs
    approver: Approver
    stopping: StopRequests
    bash: BashSettings
    model_settings: ModelSettings
    proves_read_only: Callable[[str, Path], bool]
    env: Mapping[str, str]
    """The session's environment."""
    hooking: SessionHooks
    serving: SessionMcpServers
    search: SessionSearch
    teams: bool = True
    attended: bool = True
    """True when a user can answer the questions of an agent."""
    allow_private: bool = False
    notify: Callable[[str], None] | None = None
    """Shows a text to the person, also from another thread. None: changes of files by commands are not recorded."""
    extra: Sequence[AnyTool] = ()
    variables: Callable[[], Mapping[str, str]] = dict[str, str]
    """Returns the variables that hooks set for commands."""
    sandbox: Callable[[], Sandbox] | None = None
    """Returns the sandbox of commands, made at the first call; None: they are not confined."""
    permits: PermissionAnswers | None = None
    agent_types: Callable[[], str] = str
    """Returns the list of agent types in the Agent tool."""
    agent_type_names: Callable[[], str] = str
    """Returns the names of agent types in the Agent tool of the compact prompt."""
    shelf: SkillCatalog = field(default_factory=SkillCatalog)
    """Skills and commands."""
    startup: ShellStartup | None = None
    """The startup of commands; None without one."""
    _shared: tuple[AnyTool, ...] = ()
    """Tools without a state, shared by all agents. An agent's directory is in its workplace."""
    _agents: Subagents | None = None
    _used_sandbox: Sandbox | None = None

    @property
    def agents(self) -> Subagents:
        """The sub-agents of the session."""
        assert self._agents is not None, "`set_agents` was not called before the first agent is made"
        return self._agents

    def set_agents(self, agents: Subagents) -> None:
        """Set the sub-agents of the session, before the first agent is made."""
        self._agents = agents

    def is_compact(self, card: ModelCard, kind: AgentType | None) -> bool:
        """Return True when an agent of this model and type gets the compact prompt."""
        return gets_compact_prompt(kind, self.model_settings, card)

    def offer(self, tools: Sequence[AnyTool], card: ModelCard, kind: AgentType | None) -> list[AnyTool]:
        """Return these tools of an agent as its prefix names them: in the form for its model, some of them deferred."""
        return offer_tools(tools, compact=self.is_compact(card, kind))

    def subagent_tools(self, id: str, starts: SessionTeam | None, denied: Sequence[str]) -> list[AnyTool]:
        """Return the tools of a sub-agent. One that may start others gets the team, which they need.

        Those have ids alone: names are for members, and for the sub-agents of the lead and of members.
        """
        skills = self._skills(self._fork(id) if starts is not None else None)
        unfit = (*NOT_FOR_SUBAGENTS, *denied)
        tools = [t for t in [*self._plain(), *skills, no_tool_search()] if not covers(unfit, t.name)]
        if starts is None:
            return tools
        stop = self._task_stop(Caller(id, starts))
        below = [self._subagent(id, allow_names=False), self._task_output(id), stop, self._message_subagent(id)]
        return [*tools, *(t for t in below if not covers(denied, t.name))]

    def _fork(self, caller: str) -> RunFork:
        async def fork(spec: SpawnSpec, ctx: ToolContext) -> ToolResult:
            from teamwright.tools.subagent.agent_without_team import run_spec

            return await run_spec(self.agents, spec, caller, ctx)

        return fork

    def _skills(self, fork: RunFork | None = None) -> list[AnyTool]:
        """Return the tool for skills, if there are any. Only agents that may start sub-agents can run skills in one."""
        shelf = self.shelf
        if not shelf.for_models:
            return []
        listed = f"\n{list_for_model(shelf.for_models)}"
        return [BuiltInTool("SkillTool", lambda: tool_classes.SkillTool(shelf, fork), more_text=listed)]

    def without_subagent_skills(self, tools: Sequence[AnyTool]) -> list[AnyTool]:
        """Return an agent's tools. Without the right to start sub-agents, skills cannot start one either."""
        names = [tool.name for tool in tools]
        if "Agent" in names or "Skill" not in names:
            return list(tools)
        [skills] = self._skills()
        return [skills if tool.name == "Skill" else tool for tool in tools]

    @property
    def command_path(self) -> str:
        """The PATH of agents' commands, as far as it is known before the first command."""
        inherited = self.env.get("PATH", "")
        return self.startup.command_path(inherited) if self.startup is not None else inherited

    def use_sandbox(self) -> Sandbox | None:
        """Return the sandbox of commands, made at the first use; None when there is none."""
        self._used_sandbox = self.sandbox and self.sandbox()
        return self._used_sandbox

    async def close_sandbox(self) -> None:
        """End the connections of commands, if there was one."""
        if self._used_sandbox is not None:
            await self._used_sandbox.close()

    def _bash(self) -> AnyTool:
        """Load the tool for commands, with the recorder of the files that they change."""
        sandbox = self.use_sandbox()
        proves, given = self.proves_read_only, self.variables
        tool = tool_classes.Bash(self.jobs, self.bash, proves, self.startup, self.env, sandbox, hooked=given)
        if self.notify is None or not self.bash.records_changes:
            return tool
        from teamwright.tools.shell.command_changes import CommandChanges  # loaded only for a command

        return tool.with_changes(CommandChanges(self.notify))

    def _plain(self) -> Sequence[AnyTool]:
        if not self._shared:
            self._shared = (
                BuiltInTool("Bash", self._bash),
                BuiltInTool("Read", lambda: tool_classes.Read()),
                BuiltInTool("Edit", lambda: tool_classes.Edit()),
                BuiltInTool("Write", lambda: tool_classes.Write()),
                BuiltInTool("NotebookEdit", lambda: tool_classes.NotebookEdit(), is_rare=True),
                BuiltInTool("Glob", lambda: tool_classes.Glob()),
                BuiltInTool("Grep", lambda: tool_classes.Grep()),
            )
        fetch = BuiltInTool("WebFetch", lambda: tool_classes.WebFetch(allow_private=self.allow_private), is_rare=True)
        return [*self._shared, fetch, *self._search(), *self.extra]

    def _search(self) -> list[AnyTool]:
        """Return the tool that searches the web, if there is a way to search."""
        if not self.search.is_available:
            return []
        return [BuiltInTool("WebSearch", lambda: tool_classes.WebSearch(self.search.search), is_rare=True)]

    async def mcp_tools(
        self,
        hides: Callable[[str], bool],
        kind: AgentType | None = None,
        denied: Sequence[str] = (),
        place: AgentWorkspace | None = None,
        bounds: SandboxSettings = UNBOUNDED,
        *,
        compact: bool = False,
    ) -> list[AnyTool]:
        """Return an agent's tools of MCP servers, for the full or the compact prompt.

        `place` is its worktree, `bounds` those of its commands.

        Raises UsageError, CannotStart for servers that it needs.
        """

        def allowed(name: str) -> bool:
            return not hides(name) and not covers(denied, name) and (kind is None or kind.allows(name))

        return await self.serving.tools_of(kind, allowed, place, bounds, compact=compact)

    def plan_tools(
        self, member: str, mode: PlanMode, approval: PlanApproval, *, is_subagent: bool = False
    ) -> list[AnyTool]:
        """Return the tools of an agent that may plan. A sub-agent leaves only a plan mode that it entered itself."""
        return [
            BuiltInTool("EnterPlanMode", lambda: tool_classes.EnterPlanMode(mode), is_rare=True),
            BuiltInTool("ExitPlanMode", lambda: tool_classes.ExitPlanMode(member, mode, approval), is_rare=is_subagent),
        ]

    def tools(self, caller: Caller) -> list[AnyTool]:
        """Return the tools of a member: the common ones, the task list, agents, and with teams on the team's."""
        return [
            *self._plain(),
            *self._skills(self._fork(caller.name)),
            self._ask_user(caller),
            self._agent(caller) if self.teams else self._subagent(caller.name),
            self._task_output(caller.name),
            self._task_stop(caller),
            *self._task_list(caller),
            *(self._team(caller) if self.teams else [self._message_subagent(caller.name)]),
            no_tool_search(),
        ]

    def _ask_user(self, caller: Caller) -> AnyTool:
        def make() -> AnyTool:
            return tool_classes.AskUserQuestion(caller.name, self.approver, blocked_callback(caller.team, caller.name))

        return BuiltInTool("AskUserQuestion", make, is_offered=self.attended)

    def _agent(self, caller: Caller) -> AnyTool:
        def make() -> AnyTool:
            cls = tool_classes.ForkingAgentTool if forks else tool_classes.AgentTool
            return cls(caller, self.agents)

        forks = self.agents.settings.fork
        return self._starter("ForkingAgentTool" if forks else "AgentTool", make)

    def _subagent(self, caller: str, *, allow_names: bool = True) -> AnyTool:
        def make() -> AnyTool:
            cls = tool_classes.ForkingSubagentTool if forks else tool_classes.SubagentTool
            return cls(caller, self.agents, allow_names=allow_names)

        forks = self.agents.settings.fork
        return self._starter("ForkingSubagentTool" if forks else "SubagentTool", make, allow_names=allow_names)

    def _starter(self, kind: str, make: Callable[[], AnyTool], *, allow_names: bool = True) -> AnyTool:
        """Return a tool that starts agents, with the agent types that there are besides the built-in ones."""
        settings = self.agents.settings
        parts = (fork_text() if settings.fork else "", self.agent_types())
        hidden = settings.hidden_parameters(allow_names=allow_names)
        names = self.agent_type_names()
        return BuiltInTool(
            kind, make, more_text="\n".join(filter(None, parts)), hidden_parameters=hidden, compact_text=names
        )

    def _task_output(self, caller: str) -> AnyTool:
        return BuiltInTool("TaskOutput", lambda: tool_classes.TaskOutput(caller, self.agents, self.jobs), is_rare=True)

    def _task_stop(self, caller: Caller) -> AnyTool:
        return BuiltInTool("TaskStop", lambda: tool_classes.TaskStop(caller, self.agents, self.jobs), is_rare=True)

    def _message_subagent(self, caller: str) -> AnyTool:
        return BuiltInTool("MessageSubagent", lambda: tool_classes.MessageSubagent(caller, self.agents))

    def _task_list(self, caller: Caller) -> list[AnyTool]:
        return [
            BuiltInTool("TaskCreate", lambda: tool_classes.TaskCreate(caller, self.hooking)),
            BuiltInTool("TaskGet", lambda: tool_classes.TaskGet(caller)),
            BuiltInTool("TaskListTool", lambda: tool_classes.TaskListTool(caller)),
            BuiltInTool("TaskUpdate", lambda: tool_classes.TaskUpdate(caller, self.hooking)),
        ]

    def _team(self, caller: Caller) -> list[AnyTool]:
        def send_message() -> AnyTool:
            return tool_classes.SendMessage(caller, self.stopping, self.permits, self.agents)

        return [
            BuiltInTool("SendMessage", send_message),
            BuiltInTool("ListAgents", lambda: tool_classes.ListAgents(caller), is_rare=True),
            BuiltInTool("TeamCreate", lambda: tool_classes.TeamCreate(caller), is_rare=True),
            BuiltInTool("TeamDelete", lambda: tool_classes.TeamDelete(caller), is_rare=True),
        ]
