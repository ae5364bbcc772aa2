"""Members that go on while their definition changed, or is gone: what they were told stays, and nothing is widened."""

import asyncio
import json

import pytest

from teamwright import Team
from teamwright.protocol.events import Notice
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

TOUCH = ("Bash", {"command": "touch made"})


def kind(**said) -> dict:
    return {"kind": {"description": "d", "prompt": "You were born.", **said}}


class Crew:
    """A team with one member, left and gone on with."""

    def __init__(self, root) -> None:
        self.root = root
        self.notices: list[str] = []

    def team(self, make, model, **options) -> Team:
        return make("crew", model=model, cwd=self.root, permission_mode="bypassPermissions", **options)

    async def begin(self, **options) -> None:
        role = options.pop("role", "kind")
        async with asyncio.timeout(WAIT_S), self.team(Team, ScriptedModel(lambda _r: "Done."), **options) as team:
            await team.spawn("ada", "Go.", agent_type=role)
            await team.run("Wait.")

    async def go_on(self, *calls, **options) -> tuple[list[str], str, str]:
        """Who is back; what the member was told; the head of its prompt."""
        script = [*calls, "Done."]
        model = ScriptedModel(lambda r: script.pop(0) if r.agent_name == "ada" and script else "Done.")
        async with asyncio.timeout(WAIT_S), self.team(Team.resume, model, **options) as team:
            log = team.session.log
            log.subscribe(lambda _n, e: self.notices.append(e.text) if isinstance(e, Notice) else None, live=False)
            back = [member.name for member in team.members]
            if back:
                await team.send("ada", "Go on.")
            await team.run("Wait.")
        own = [request for request in model.requests if request.agent_name == "ada"]
        told = "\n".join(json.dumps(json.loads(item)) for request in own for item in request.items)
        return back, told, own[0].prefix.head.decode() if own else ""

    @property
    def lead_was_told(self) -> str:
        files = (self.root.parent).rglob("events.jsonl")
        return "\n".join(path.read_text() for path in files)


@pytest.fixture
def crew(tmp_path, monkeypatch):
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    return Crew(tmp_path / "work")


@pytest.mark.promise("row F8", "F46", "F55")
@pytest.mark.parametrize("later", [{}, {"agents": kind(prompt="You are another.")}], ids=["gone", "wider"])
async def test_it_keeps_what_it_was_told_and_has_no_tool_that_it_had_not(crew, later):
    await crew.begin(agents=kind(tools=["Read"]))
    back, told, head = await crew.go_on(TOUCH, **later)
    assert back == ["ada"]
    assert "You were born." in head and "You are another." not in head
    assert not (crew.root / "made").exists()
    assert "Bash" in told


@pytest.mark.promise("F46")
async def test_parts_of_tools_that_it_was_denied_stay_denied(crew):
    await crew.begin(agents=kind(disallowedTools=["Bash(touch:*)"]))
    back, told, _ = await crew.go_on(TOUCH)
    assert back == ["ada"]
    assert not (crew.root / "made").exists()
    assert "Bash(touch:*)" in told


@pytest.mark.promise("F46")
async def test_what_a_definition_forbids_now_is_forbidden_too(crew):
    await crew.begin(agents=kind())
    back, _, _ = await crew.go_on(TOUCH, agents=kind(disallowedTools=["Bash"]))
    assert back == ["ada"]
    assert not (crew.root / "made").exists()


@pytest.mark.promise("F46")
async def test_a_member_that_its_hooks_guarded_does_not_go_on_without_them(crew):
    guard = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "exit 2"}]}]}
    await crew.begin(agents=kind(hooks=guard))
    back, _, _ = await crew.go_on(TOUCH)
    assert back == []
    assert not (crew.root / "made").exists()
    assert "hooks that guarded it were removed" in crew.lead_was_told


@pytest.mark.promise("F46")
async def test_a_member_with_its_hooks_there_goes_on_under_them(crew):
    guard = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "exit 2"}]}]}
    await crew.begin(agents=kind(hooks=guard))
    back, told, _ = await crew.go_on(TOUCH, agents=kind(hooks=guard))
    assert back == ["ada"]
    assert not (crew.root / "made").exists()
    assert "A hook refused this call" in told


@pytest.mark.promise("F46")
async def test_a_role_that_only_read_does_not_write_when_the_repository_is_trusted_no_longer(crew):
    (crew.root / ".teamwright").mkdir()
    (crew.root / ".teamwright/team.toml").write_text('[roles.reader]\ntype = "Explore"\n')
    await crew.begin(role="reader", trust=True)
    back, _, _ = await crew.go_on(TOUCH)
    assert back == ["ada"]
    assert not (crew.root / "made").exists()


@pytest.mark.promise("F46")
async def test_a_member_whose_role_is_gone_does_not_go_on_without_its_fences(crew):
    (crew.root / ".teamwright").mkdir()
    (crew.root / ".teamwright/team.toml").write_text('[roles.writer]\nwrites = ["docs/**"]\n')
    await crew.begin(role="writer", trust=True)
    (crew.root / ".teamwright/team.toml").unlink()
    back, _, _ = await crew.go_on(TOUCH)
    assert back == []
    assert "what it may not change with it, is not in the team file any more" in crew.lead_was_told
