"""What the session's process does for members in processes of their own: it answers, sets aside, keeps.

One queue of requests, one purse and one policy hold for everybody, wherever they live. Knows those; does not know how
it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from teamwright.agent.gate import Denial, Grant
from teamwright.app.assembling import calls_file
from teamwright.app.builder import Maker
from teamwright.app.members.told import answer_of, answer_to_json, policy_to_json, question_of
from teamwright.app.modes import set_of_member
from teamwright.app.spending.purse import Hold, Purse
from teamwright.app.spending.scope import Estimate, Scope
from teamwright.models.model import Refusal
from teamwright.permissions.rule import Rule
from teamwright.permissions.verdict import Asker
from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.event_json import usage_from_json
from teamwright.protocol.events import RoundEnded, TeamEvent, ToolCalled
from teamwright.storage.sockets.wire import Said
from teamwright.teams.ending import kill


@dataclass(slots=True)
class Helping:
    """What one session's process does for its members' (see teams.processes.ports.Help)."""

    maker: Maker
    asker: Asker
    attended: Callable[[], bool]
    grant: Grant
    settings_rules: tuple[Rule, ...]
    """The rules of the session's policy that its members' processes read for themselves."""
    _holds: dict[tuple[str, int], Hold] = field(default_factory=dict[tuple[str, int], Hold])
    _next: int = field(default_factory=now_ms)
    """The number of the newest hold: above those of a process that led before."""

    @property
    def _purse(self) -> Purse:
        return self.maker.purse

    def welcome(self, name: str) -> Said:
        """See Help. What an earlier life of its process held is free again."""
        self.gone(name)
        maker = self.maker
        maker.numbers.share(calls_file(maker.home, maker.cwd, maker.session))
        return {"policy": self.policy()}

    def policy(self) -> Said:
        """The policy that nobody may exceed, as it is now."""
        return policy_to_json(self.maker.policy, self.settings_rules)

    def gone(self, name: str) -> None:
        """The process of this member has ended: its calls hold nothing any more."""
        for key in [key for key in self._holds if key[0] == name]:
            self._holds.pop(key).settle(None)

    def noted(self, name: str, what: str, said: Said) -> None:
        """See Help."""
        match what:
            case "settle":
                usage = None if said["usage"] is None else usage_from_json(said["usage"])
                if (hold := self._holds.pop((name, int(said["hold"])), None)) is not None:
                    hold.settle(usage)
            case "denied":
                self.maker.denials.extend(Denial(**one) for one in said["denials"])
            case "always":
                self.maker.policies.keep_always(str(said["rule"]))
            case _:
                pass

    async def called(self, name: str, what: str, said: Said) -> Said:
        """See Help."""
        match what:
            case "ask":
                return answer_to_json(await self.asker.ask(question_of(said["question"])))
            case "reserve":
                return await self._reserve(name, said)
            case "grant":
                await self.grant(str(said["owner"]), self.maker.policy, answer_of(said["answer"]))
                return {}
            case "mode" | "stop":
                return await self._for_person(name, what, said)
            case _:
                raise TeamRefused("team-refused", f"{what!r} is nothing that a lead does", note="nothing was done")

    async def _for_person(self, name: str, what: str, said: Said) -> Said:
        """What a person at the member's own terminal has done, under the rules of the lead's."""
        team = self.maker.team
        if team is None:
            raise TeamRefused("team-refused", "there is no team any more", note="nothing was done")
        if what == "mode":
            return {"words": str(await set_of_member(self.maker, team, str(said["mode"]), name, source="/mode"))}
        if (mate := team.find(name)) is not None:
            await kill(team, mate, "stopped by the user")
        return {}

    async def _reserve(self, name: str, said: Said) -> Said:
        """Room for a call of this member, or of a sub-agent of it, in the run and in the task that it works on."""
        purse, call = self._purse, Estimate(**said["call"])
        scopes = self._scopes(name)
        for scope in scopes:
            scope.calls += int(said["calls"])
        got = await purse.reserve(scopes, call)
        if isinstance(got, Refusal):
            return {"refused": [got.limit, got.why]}
        self._next += 1
        self._holds[name, self._next] = got
        return {"hold": self._next}

    def _scopes(self, name: str) -> list[Scope]:
        task = self._purse.task_scope(self._purse.task_of(name))
        return [self._purse.run] if task is None else [self._purse.run, task]

    def translate(self, name: str, event: TeamEvent) -> TeamEvent:
        """What a member's process told, as an event of the session: booked here too."""
        match event:
            case RoundEnded():
                purse, task = self._purse, event.task
                purse.book(event.member, event.usage, event.model, caller=event.caller, task=task)
            case ToolCalled():
                self.maker.numbers.elsewhere(event.use, event.call)
            case _:
                pass
        return event
