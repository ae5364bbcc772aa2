"""The tools that agents get, each made for its caller.

The only place that lists tools. What an agent may have of them is decided by its definition and its policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from teamwright.agent.background import BackgroundJobs
from teamwright.agent.definition import NOT_FOR_SUBAGENTS, AgentDefinition, covers
from teamwright.agent.plan_mode import Approval, PlanMode
from teamwright.agent.tool import AnyTool, ToolContext, ToolResult
from teamwright.app.hooking.of_session import Hooking
from teamwright.app.serving.serving import Serving
from teamwright.hooks.book import TASK_CREATED
from teamwright.models.settings import ModelSettings
from teamwright.permissions.verdict import Asker
from teamwright.protocol.ids import LEAD
from teamwright.protocol.task import Task
from teamwright.protocol.values import dataclass
from teamwright.skills.shelf import Shelf
from teamwright.tasks.task_list import Change, TaskList
from teamwright.teams.agents.book import Agents
from teamwright.teams.mailing.post import Call
from teamwright.teams.mailing.task_owners import notify_owners, require_owner
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.team import Team, blocking
from teamwright.tools.background.output import TaskOutput
from teamwright.tools.background.stop import TaskStop
from teamwright.tools.files.edit import Edit
from teamwright.tools.files.glob import Glob
from teamwright.tools.files.grep import Grep
from teamwright.tools.files.notebook_edit import NotebookEdit
from teamwright.tools.files.read import Read
from teamwright.tools.files.write import Write
from teamwright.tools.plan.enter import EnterPlanMode
from teamwright.tools.plan.exit import ExitPlanMode
from teamwright.tools.shell.bash import Bash, BashSettings
from teamwright.tools.shell.startup import Startup
from teamwright.tools.skill.skill import Fork, SkillTool
from teamwright.tools.tasks.create import TaskCreate
from teamwright.tools.tasks.get import TaskGet
from teamwright.tools.tasks.list import TaskListTool
from teamwright.tools.tasks.port import Completing
from teamwright.tools.tasks.update import TaskUpdate
from teamwright.tools.team.agent import AgentTool
from teamwright.tools.team.answering import Permits
from teamwright.tools.team.ask_user import AskUserQuestion
from teamwright.tools.team.caller import Caller
from teamwright.tools.team.list_agents import ListAgents
from teamwright.tools.team.send_message import SendMessage
from teamwright.tools.team.stopping import Stopping
from teamwright.tools.team.subagent import SubagentTool, run_spec
from teamwright.tools.team.team_create import TeamCreate
from teamwright.tools.team.team_delete import TeamDelete
from teamwright.tools.team.to_agent import ToAgent
from teamwright.tools.web.fetch import WebFetch

PLAN_TOOLS = frozenset({EnterPlanMode.name, ExitPlanMode.name})
"""Tools of agents that can plan, which have a state of their own."""


@dataclass(frozen=True, slots=True)
class CallerTasks:
    """The task list of a caller's team, as its tools see it."""

    caller: Caller

    @property
    def tasks(self) -> TaskList:
        """The list that is shared now."""
        return self.caller.team.tasks

    def me(self) -> tuple[str, bool]:
        """The caller's name, and whether it is the lead."""
        return self.caller.name, self.caller.name == LEAD

    async def require_owner(self, owner: str | None, *, id: str = "") -> None:
        """See TaskPort."""
        await require_owner(self.caller.team, owner, self.caller.name, id=id)

    async def notify_owners(self, change: Change, call: str, *, again: bool) -> None:
        """See TaskPort."""
        await notify_owners(self.caller.team, change, self.caller.name, Call(call, again))


@dataclass(frozen=True, slots=True)
class CallerWatch:
    """What hooks say to what a caller does to tasks."""

    caller: Caller
    hooking: Hooking

    def looks(self) -> bool:
        """See TaskWatch."""
        return self.hooking.hooks.wants(TASK_CREATED)

    async def created(self, task: Task) -> str:
        """See TaskWatch."""
        return await self.hooking.task_created(self.caller.name, task, self.caller.team)

    async def completing(self, task: Task) -> Completing:
        """See TaskWatch."""
        return await self.hooking.task_completing(self.caller.name, task, self.caller.team)


@dataclass(slots=True)
class Kit:
    """Makes the tools of an agent. `extra` are the program's own."""

    jobs: BackgroundJobs
    asker: Asker
    stopping: Stopping
    bash: BashSettings
    model_settings: ModelSettings
    proves_read_only: Callable[[str, Path], bool]
    env: Mapping[str, str]
    """The session's environment."""
    teams: bool = True
    attended: bool = True
    """True when a user can answer the questions of an agent."""
    allow_private: bool = False
    extra: Sequence[AnyTool] = ()
    permits: Permits | None = None
    hooking: Hooking | None = None
    serving: Serving | None = None
    agents: Agents = field(init=False)
    """The sub-agents of the session: set before the first agent is made."""
    agent_types: Callable[[], str] = str
    """The list of agent types in the Agent tool."""
    shelf: Shelf = field(default_factory=Shelf)
    """Skills and commands."""
    startup: Startup | None = None
    """What commands begin with; None: nothing."""
    _shared: tuple[AnyTool, ...] = ()
    """Tools that keep nothing themselves: one of each serves all agents. Where an agent is, is in its workplace."""

    def plain_tools(self, member: str) -> list[AnyTool]:
        """What every agent may have: files, shell, web, skills, and the program's own tools."""
        return [*self._plain(), *self._skills()]

    def subagent_tools(self, id: str, starts: Team | None, denied: Sequence[str]) -> list[AnyTool]:
        """What a sub-agent may have. One that may start others is given the team: it has what it needs for these.

        Those have ids alone: names are for members, and for the sub-agents of the lead and of members.
        """
        skills = self._skills(self._fork(id) if starts is not None else None)
        unfit = (*NOT_FOR_SUBAGENTS, *denied)
        tools = [t for t in [*self._plain(), *skills] if not covers(unfit, t.name)]
        if starts is None:
            return tools
        agent = SubagentTool(id, self.agents, self.agent_types(), named=False)
        stop = TaskStop(Caller(id, starts), self.agents, self.jobs)
        below = [agent, TaskOutput(id, self.agents, self.jobs), stop, ToAgent(id, self.agents)]
        return [*tools, *(t for t in below if not covers(denied, t.name))]

    def _fork(self, caller: str) -> Fork:
        async def fork(spec: SpawnSpec, ctx: ToolContext) -> ToolResult:
            return await run_spec(self.agents, spec, caller, ctx)

        return fork

    def _skills(self, fork: Fork | None = None) -> list[AnyTool]:
        """The tool for skills, where there are any. Only who may start sub-agents hands over what runs them."""
        return [SkillTool(self.shelf, fork)] if self.shelf.for_models else []

    def _plain(self) -> list[AnyTool]:
        if not self._shared:
            bash = Bash(self.jobs, self.bash, self.proves_read_only, self.startup, self.env)
            self._shared = (bash, Read(), Edit(), Write(), NotebookEdit(), Glob(), Grep())
        return [*self._shared, WebFetch(allow_private=self.allow_private), *self.extra]

    async def served(
        self, hides: Callable[[str], bool], kind: AgentDefinition | None = None, denied: Sequence[str] = ()
    ) -> list[AnyTool]:
        """The tools of MCP servers that an agent has. Raises UsageError, CannotStart for servers that it needs."""

        def allowed(name: str) -> bool:
            return not hides(name) and not covers(denied, name) and (kind is None or kind.allows(name))

        return await self.serving.tools_of(kind, allowed) if self.serving is not None else []

    def plan_tools(self, member: str, mode: PlanMode, approval: Approval) -> list[AnyTool]:
        """What every agent has that may ever plan."""
        return [EnterPlanMode(mode), ExitPlanMode(member, mode, approval)]

    def tools(self, caller: Caller) -> list[AnyTool]:
        """What a member may have: the plain ones, the task list, agents, and with teams on the team's."""
        port = CallerTasks(caller)
        watch = CallerWatch(caller, self.hooking) if self.hooking is not None else None
        types = self.agent_types()
        tools: list[AnyTool] = [
            *self._plain(),
            *self._skills(self._fork(caller.name)),
            AskUserQuestion(caller.name, self.asker, blocking(caller.team, caller.name), offered=self.attended),
            AgentTool(caller, self.agents, types) if self.teams else SubagentTool(caller.name, self.agents, types),
            TaskOutput(caller.name, self.agents, self.jobs),
            TaskStop(caller, self.agents, self.jobs),
            TaskCreate(port, watch),
            TaskGet(port),
            TaskListTool(port),
            TaskUpdate(port, watch),
        ]
        if self.teams:
            tools += [SendMessage(caller, self.stopping, self.permits, self.agents), ListAgents(caller)]
            tools += [TeamCreate(caller), TeamDelete(caller)]
        else:
            tools.append(ToAgent(caller.name, self.agents))
        return tools
