"""Names as models write them: the error has the nearest name, all members, and `*` where all are meant."""

import pytest

from teamwright import Team
from teamwright.protocol.errors import InvalidName, UnknownMember
from teamwright.protocol.ids import LEAD, TO_ALL, known_name, member_name, unknown_member
from teamwright.testing import Call, ScriptedModel

MEMBERS = [LEAD, "ada", "bob"]

WRITTEN = [
    ("['ada']", "did you mean ada?"),
    ('"ada"', "did you mean ada?"),
    ("@ada", "did you mean ada?"),
    ("@Ada", "did you mean ada?"),
    ("ada@other", "did you mean ada?"),
    ("@ada@other", "did you mean ada?"),
    ("<ada>", "did you mean ada?"),
    ("Ada Lovelace", "did you mean ada?"),
    ("adaa", "did you mean ada?"),
    ("ada, bob", "write to ada and bob one by one"),
    ("all", TO_ALL),
    ("@all", TO_ALL),
    ("everyone", TO_ALL),
    ("the team", TO_ALL),
    ("leader", "did you mean lead?"),
    ("team leader", "did you mean lead?"),
    ("@lead", "did you mean lead?"),
    ("ada, bob", TO_ALL),
]


@pytest.mark.finding("3W18")
@pytest.mark.parametrize(("text", "advice"), WRITTEN)
def test_a_name_as_a_model_writes_it_is_answered_with_the_nearest_and_all_members(text, advice):
    with pytest.raises(UnknownMember) as problem:
        name = known_name(text, ["crew"], MEMBERS, "team crew")
        raise unknown_member(name, MEMBERS, "team crew")
    said = problem.value.for_model()
    assert advice in said and "members: lead, ada, bob" in said and "''" not in said


@pytest.mark.finding("3W18")
@pytest.mark.parametrize("tool", ["SendMessage", "TaskCreate", "shutdown"])
@pytest.mark.parametrize("text", ["['ada']", "@ada"])
async def test_every_tool_that_takes_a_name_says_so(tmp_path, tool, text):
    given = {
        "SendMessage": ("SendMessage", {"to": text, "message": "hi", "summary": "s"}),
        "TaskCreate": ("TaskCreate", {"subject": "s", "description": "d", "owner": text}),
        "shutdown": ("SendMessage", {"to": text, "message": {"type": "shutdown_request"}, "summary": "s"}),
    }[tool]
    model = ScriptedModel({"team-lead": [Call(*given), "Done."], "ada": ["k"]})
    async with Team("crew", model=model, cwd=tmp_path, env={}) as team:
        await team.spawn("ada", "Wait.")
        await team.run("Go.")
    said = "\n".join(model.request_text(n) for n, one in enumerate(model.requests) if one.agent_name == "team-lead")
    assert "did you mean ada?" in said and "members: lead, ada" in said


@pytest.mark.finding("3W18")
@pytest.mark.parametrize(
    ("text", "part"), [("con", "con, nul"), ("Ada Lovelace", "Ada-Lovelace"), ("@ada", "write ada")]
)
def test_a_name_that_no_member_may_have_says_why_and_what_to_write(text, part):
    with pytest.raises(InvalidName) as problem:
        member_name(text)
    assert part in problem.value.for_model()
