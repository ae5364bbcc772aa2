"""Requests of servers: directories, input of the user, and answers of the model, each within its bounds."""

import json
import sys
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.protocol.events import Notice, RequestOpened
from teamwright.session.control.person_actions import allow_directory
from teamwright.session.mcp_requests import parse_form
from teamwright.testing import Call, ScriptedModel
from tests.support.waits import WAIT_S

LIBRARY = str(Path(__file__).parents[2] / "mcp" / "sdk_library_server.py")
pytestmark = [pytest.mark.finding("C5"), pytest.mark.promise("H7", "row L5")]


class Crew:
    """A team with the library server, whose requests a program answers with these texts; None denies."""

    def __init__(self, root: Path, script, *answers: str | None, settings: dict | None = None) -> None:
        self.model = ScriptedModel(script)
        self.asked: list[RequestOpened] = []
        self.answers = list(answers)
        options = {"permission_mode": "bypassPermissions", "cwd": root}
        path = root.parent / f"{root.name}.json"
        path.write_text(json.dumps({"mcp": {"wait_s": WAIT_S, **(settings or {})}}))
        options["settings_file"] = path
        if answers:
            options["on_request"] = self.answer
        servers = {"library": {"command": sys.executable, "args": [LIBRARY]}}
        self.team = Team("crew", model=self.model, mcp_servers=servers, **options)

    async def answer(self, event: RequestOpened) -> None:
        self.asked.append(event)
        text = self.answers.pop(0)
        if text is None:
            await event.deny("no")
        elif event.kind == "question":
            await event.answer(text)
        else:
            await event.allow()

    async def run(self) -> list[str]:
        async with self.team as team:
            self.result = await team.run("Do it.")
        blocks = [block for item in self.model.requests[-1].items for block in json.loads(item)["content"]]
        return [block["content"] for block in blocks if isinstance(block, dict) and block["type"] == "tool_result"]


@pytest.mark.slow
async def test_a_server_lists_the_directories_of_the_session_and_those_added_since(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "more").mkdir()
    crew = Crew(tmp_path / "work", [Call("mcp__library__roots", {}), "One.", Call("mcp__library__roots", {}), "Two."])
    async with crew.team as team:
        await team.run("Look.")
        await allow_directory(team.session, tmp_path / "more")
        await team.run("Look again.")
    first, second = crew.model.request_text(1), crew.model.request_text(3)
    assert json.loads(first) == [(tmp_path / "work").as_uri()]
    assert json.loads(second) == [(tmp_path / "work").as_uri(), (tmp_path / "more").as_uri()]


@pytest.mark.slow
async def test_a_form_is_asked_field_by_field_and_an_unusable_answer_again(tmp_path):
    crew = Crew(tmp_path, [Call("mcp__library__lend", {}), "Done."], "A", "Ann", "99", "7", "poetry", "leave out")
    [said] = await crew.run()
    assert said == "accept {'reader': 'Ann', 'days': 7, 'shelf': 'poetry', 'renew': False}"
    first, again, days, _, shelf, _ = crew.asked
    assert first.what.startswith('The MCP server "library" asks: Lend Emma?\n\n1 of 4: Reader: Who reads it')
    assert "cannot be used: it has 1 characters" in again.what and "(minimum 1, maximum 30)" in days.what
    assert shelf.options == ("fiction", "poetry", "leave out", "decline") and shelf.member == "team-lead"


@pytest.mark.parametrize("answers", [("decline",), (None,), ()])
@pytest.mark.slow
async def test_input_that_no_user_gives_is_declined(tmp_path, answers):
    crew = Crew(tmp_path, [Call("mcp__library__lend", {}), "Done."], *answers)
    assert (await crew.run())[0].strip() == "decline"


@pytest.mark.slow
async def test_an_address_is_shown_whole_and_only_a_person_opens_it(tmp_path):
    calls = [
        Call("mcp__library__pay", {"url": "https://pay.example/fine?id=1"}),
        Call("mcp__library__pay", {"url": "https://pay.example/"}),
        Call("mcp__library__pay", {"url": "file:///etc/passwd"}),
        "Done.",
    ]
    crew = Crew(tmp_path, calls, "opened", "decline")
    opened, declined, refused = await crew.run()
    assert (opened, declined) == ("accept", "decline") and "address cannot be shown" in refused
    assert "Open this address of pay.example yourself" in crew.asked[0].what
    assert crew.asked[0].what.endswith("https://pay.example/fine?id=1") and len(crew.asked) == 2


@pytest.mark.slow
async def test_a_model_answers_a_server_only_if_a_setting_and_the_user_allow_it_and_the_cost_is_booked(tmp_path):
    call = Call("mcp__library__summarize", {"text": "A long book."})
    crew = Crew(tmp_path, [call, "Done."], "yes")
    assert "this client does not do that" in (await crew.run())[0] and not crew.asked, "off by default"
    (tmp_path / "on").mkdir()
    on = {"sampling": True, "sampling_calls": 1}
    crew = Crew(tmp_path / "on", [call, "It is long.", call, "Done."], "yes", "yes", settings=on)
    first, second = await crew.run()
    assert first == "scripted: It is long. (endTurn)" and "mcp.sampling_calls are used" in second
    assert crew.result.usage.requests == 4, "the answer for the server is booked like the three of the lead"
    [asked] = crew.asked
    assert (asked.tool, asked.kind) == ("mcp__library__sampling", "permission")
    assert "system: Be short." in asked.what and "user: A long book." in asked.what
    request = crew.model.requests[1]
    assert json.loads(request.items[0]) == {"role": "user", "content": [{"type": "text", "text": "A long book."}]}
    assert b'"max_tokens":50' in request.prefix.head and request.aside
    (tmp_path / "no").mkdir()
    crew = Crew(tmp_path / "no", [call, "Done."], None, settings=on)
    assert "the user refused" in (await crew.run())[0] and len(crew.model.requests) == 2


def test_a_repository_cannot_turn_on_answers_of_the_model(repository):
    repository.write(".teamwright/settings.json", {"mcp": {"sampling": True}})
    repository.trust()
    assert not repository.settings().mcp.sampling
    repository.user({"mcp": {"sampling": True}})
    assert repository.settings().mcp.sampling


@pytest.mark.parametrize(
    "schema",
    [None, {}, {"properties": {"a": {"type": "object"}}}, {"properties": {"a": {"type": "string", "enum": []}}}],
)
def test_a_form_that_cannot_be_shown_is_refused(schema):
    with pytest.raises(ValueError, match=r"it has no fields|has the type|has no choices"):
        parse_form(schema)


def test_choices_have_the_labels_of_the_server_and_give_its_values():
    several = {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}}
    one = {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]}
    colors, size = parse_form({"properties": {"colors": several, "size": one}, "required": ["size"]})
    assert colors.options == ("Red", "Blue", "leave out", "decline") and colors.parse("red, Blue") == [["r", "b"]]
    assert size.options == ("Small", "Large", "decline") and size.parse("Large") == ["l"]


def test_a_field_that_is_left_out_has_the_default_of_the_server_if_the_field_accepts_it():
    name = {"type": "string", "default": "Ada"}
    size = {"type": "string", "enum": ["s", "l"], "default": "xl"}
    days = {"type": "integer", "default": 3}
    fields = parse_form({"properties": {"name": name, "size": size, "days": days}, "required": ["name", "size"]})
    assert [field.may_be_left_out for field in fields] == [True, False, True]
    assert fields[0].parse("leave out") == ["Ada"] and fields[2].parse("leave out") == [3]
    assert '"leave out" (left out: Ada)' in fields[0].question


@pytest.mark.slow
async def test_log_messages_of_a_server_are_kept_and_errors_are_shown(tmp_path):
    crew = Crew(tmp_path, [Call("mcp__library__complain", {}), "Done."])
    notices: list[str] = []
    async with crew.team as team:
        team.session.log.subscribe(lambda _n, e: notices.append(e.text) if isinstance(e, Notice) else None)
        await team.run("Do it.")
        [file] = team.session.log.path.parent.glob("mcp/library-*-messages.log")
    assert 'the MCP server "library" reports an error: the shelf is broken' in notices
    assert "error: the shelf is broken" in file.read_text()
