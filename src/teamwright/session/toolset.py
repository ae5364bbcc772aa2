"""The tools that agents get, each made for its caller.

The only place that lists tools. What an agent may have of them is decided by its definition and its policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from teamwright.agent.agent_type import NOT_FOR_SUBAGENTS, AgentType, covers
from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.plan_mode import PlanApproval, PlanMode
from teamwright.agent.tool import AnyTool, ToolContext, ToolResult
from teamwright.hooks.hook_index import TASK_CREATED
from teamwright.models.model_settings import ModelSettings
from teamwright.permissions.verdict import Approver
from teamwright.protocol.ids import LEAD
from teamwright.protocol.task import Task
from teamwright.protocol.values import dataclass
from teamwright.session.mcp_servers import SessionMcpServers
from teamwright.session.session_hooks import SessionHooks
from teamwright.skills.skill_catalog import SkillCatalog
from teamwright.tasks.task_list import TaskList, TaskUpdateResult
from teamwright.teams.mailbox.outgoing import SendCall
from teamwright.teams.spawn_spec import SpawnSpec
from teamwright.teams.subagents.registry import Subagents
from teamwright.teams.task_owners import notify_owners, require_owner
from teamwright.teams.team import SessionTeam, blocked_callback
from teamwright.tools.caller import Caller
from teamwright.tools.files.edit import Edit
from teamwright.tools.files.glob import Glob
from teamwright.tools.files.grep import Grep
from teamwright.tools.files.notebook_edit import NotebookEdit
from teamwright.tools.files.read import Read
from teamwright.tools.files.write import Write
from teamwright.tools.plan.enter_plan_mode import EnterPlanMode
from teamwright.tools.plan.exit_plan_mode import ExitPlanMode
from teamwright.tools.shell.bash import Bash, BashSettings
from teamwright.tools.shell.startup import ShellStartup
from teamwright.tools.skill.skill_tool import RunFork, SkillTool
from teamwright.tools.subagent.message_subagent import MessageSubagent
from teamwright.tools.subagent.start_subagent import SubagentTool, run_spec
from teamwright.tools.subagent.task_output import TaskOutput
from teamwright.tools.subagent.task_stop import TaskStop
from teamwright.tools.tasks.task_create import TaskCreate
from teamwright.tools.tasks.task_get import TaskGet
from teamwright.tools.tasks.task_list import TaskListTool
from teamwright.tools.tasks.task_port import CompletionReview
from teamwright.tools.tasks.task_update import TaskUpdate
from teamwright.tools.team.agent import AgentTool
from teamwright.tools.team.ask_user_question import AskUserQuestion
from teamwright.tools.team.lead_answers import PermissionAnswers
from teamwright.tools.team.list_agents import ListAgents
from teamwright.tools.team.send_message import SendMessage, StopRequests
from teamwright.tools.team.team_create import TeamCreate
from teamwright.tools.team.team_delete import TeamDelete
from teamwright.tools.web.web_fetch import WebFetch

PLAN_TOOLS = frozenset({EnterPlanMode.name, ExitPlanMode.name})
"""Tools of agents that can plan, with a state for each agent."""


@dataclass(frozen=True, slots=True)
class CallerTaskList:
    """The task list of a caller's team, for its tools."""

    caller: Caller

    @property
    def tasks(self) -> TaskList:
        """The present list."""
        return self.caller.team.tasks

    def caller_identity(self) -> tuple[str, bool]:
        """Return the caller's name, and True for the lead."""
        return self.caller.name, self.caller.name == LEAD

    async def require_owner(self, owner: str | None, *, id: str = "") -> None:
        """Implement `TaskPort.require_owner`."""
        await require_owner(self.caller.team, owner, self.caller.name, id=id)

    async def notify_owners(self, change: TaskUpdateResult, call: str, *, is_rerun: bool) -> None:
        """Implement `TaskPort.notify_owners`."""
        await notify_owners(self.caller.team, change, self.caller.name, SendCall(call, is_rerun))


@dataclass(frozen=True, slots=True)
class CallerTaskHooks:
    """The hooks on a caller's changes of tasks."""

    caller: Caller
    hooking: SessionHooks

    def is_active(self) -> bool:
        """Implement `TaskReview.is_active`."""
        return self.hooking.hooks.wants(TASK_CREATED)

    async def review_created(self, task: Task) -> str:
        """Implement `TaskReview.review_created`."""
        return await self.hooking.after_task_created(self.caller.name, task, self.caller.team)

    async def review_completion(self, task: Task) -> CompletionReview:
        """Implement `TaskReview.review_completion`."""
        return await self.hooking.before_task_completed(self.caller.name, task, self.caller.team)


@dataclass(slots=True)
class Toolset:
    """The tools of agents. `extra` are the program's own."""

    jobs: BackgroundJobs
    asker: Approver
    stopping: StopRequests
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
    permits: PermissionAnswers | None = None
    hooking: SessionHooks | None = None
    serving: SessionMcpServers | None = None
    agents: Subagents = field(init=False)
    """The sub-agents of the session: set before the first agent is made."""
    agent_types: Callable[[], str] = str
    """The list of agent types in the Agent tool."""
    shelf: SkillCatalog = field(default_factory=SkillCatalog)
    """Skills and commands."""
    startup: ShellStartup | None = None
    """The startup of commands; None without one."""
    _shared: tuple[AnyTool, ...] = ()
    """Tools without a state, shared by all agents. An agent's directory is in its workplace."""

    def subagent_tools(self, id: str, starts: SessionTeam | None, denied: Sequence[str]) -> list[AnyTool]:
        """Return the tools of a sub-agent. One that may start others gets the team, which they need.

        Those have ids alone: names are for members, and for the sub-agents of the lead and of members.
        """
        skills = self._skills(self._fork(id) if starts is not None else None)
        unfit = (*NOT_FOR_SUBAGENTS, *denied)
        tools = [t for t in [*self._plain(), *skills] if not covers(unfit, t.name)]
        if starts is None:
            return tools
        agent = SubagentTool(id, self.agents, self.agent_types(), allow_names=False)
        stop = TaskStop(Caller(id, starts), self.agents, self.jobs)
        below = [agent, TaskOutput(id, self.agents, self.jobs), stop, MessageSubagent(id, self.agents)]
        return [*tools, *(t for t in below if not covers(denied, t.name))]

    def _fork(self, caller: str) -> RunFork:
        async def fork(spec: SpawnSpec, ctx: ToolContext) -> ToolResult:
            return await run_spec(self.agents, spec, caller, ctx)

        return fork

    def _skills(self, fork: RunFork | None = None) -> list[AnyTool]:
        """Return the tool for skills, if there are any. Only agents that may start sub-agents can run skills in one."""
        return [SkillTool(self.shelf, fork)] if self.shelf.for_models else []

    def _plain(self) -> list[AnyTool]:
        if not self._shared:
            bash = Bash(self.jobs, self.bash, self.proves_read_only, self.startup, self.env)
            self._shared = (bash, Read(), Edit(), Write(), NotebookEdit(), Glob(), Grep())
        return [*self._shared, WebFetch(allow_private=self.allow_private), *self.extra]

    async def mcp_tools(
        self, hides: Callable[[str], bool], kind: AgentType | None = None, denied: Sequence[str] = ()
    ) -> list[AnyTool]:
        """Return an agent's tools of MCP servers. Raises UsageError, CannotStart for servers that it needs."""

        def allowed(name: str) -> bool:
            return not hides(name) and not covers(denied, name) and (kind is None or kind.allows(name))

        return await self.serving.tools_of(kind, allowed) if self.serving is not None else []

    def plan_tools(self, member: str, mode: PlanMode, approval: PlanApproval) -> list[AnyTool]:
        """Return the tools of an agent that may plan."""
        return [EnterPlanMode(mode), ExitPlanMode(member, mode, approval)]

    def tools(self, caller: Caller) -> list[AnyTool]:
        """Return the tools of a member: the common ones, the task list, agents, and with teams on the team's."""
        port = CallerTaskList(caller)
        watch = CallerTaskHooks(caller, self.hooking) if self.hooking is not None else None
        types = self.agent_types()
        tools: list[AnyTool] = [
            *self._plain(),
            *self._skills(self._fork(caller.name)),
            AskUserQuestion(caller.name, self.asker, blocked_callback(caller.team, caller.name), offered=self.attended),
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
            tools.append(MessageSubagent(caller.name, self.agents))
        return tools
