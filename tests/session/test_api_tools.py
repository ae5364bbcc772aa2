"""A program's own functions as tools: what models read of them, what they are handed, what becomes of mistakes."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import teamwright
from teamwright import Request, Team, ToolResult, UsageError
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S


class Person(BaseModel):
    name: str
    age: int = 0


@dataclass
class Place:
    street: str
    numbers: list[int]


class Level(StrEnum):
    LOW = "low"
    HIGH = "high"


async def call(tmp_path: Path, function: Callable[..., Any], given: dict[str, Any], **more: Any) -> str:
    """What the model reads when it calls the function with these arguments."""
    name = f"python__{getattr(function, '__name__', '')}"
    model = ScriptedModel([(name, given), "done"])
    options = {"permission_mode": "bypassPermissions"} | more
    async with asyncio.timeout(WAIT_S), Team("crew", model=model, cwd=tmp_path, tools=[function], **options) as team:
        await team.run("Call it.")
    return model.request_text()


def schema_of(model: ScriptedModel, name: str) -> dict[str, Any]:
    tools = json.loads(b"{" + model.requests[0].prefix.head + b"}")["tools"]
    return next(tool for tool in tools if tool["name"] == name)


@pytest.mark.promise("J1")
async def test_schema_and_description_come_from_annotations_and_docstring(tmp_path):
    def open_ticket(
        title: str,
        level: Literal["low", "high"] = "low",
        labels: list[str] | None = None,
        count: Annotated[int, Field(description="How many.", ge=1)] = 1,
    ) -> str:
        """Open a ticket in the tracker."""
        return title

    model = ScriptedModel("ok")
    async with Team("crew", model=model, cwd=tmp_path, tools=[open_ticket]) as team:
        await team.run("Go.")
    assert schema_of(model, "python__open_ticket") == {
        "name": "python__open_ticket",
        "description": "Open a ticket in the tracker.",
        "input_schema": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "title": {"type": "string"},
                "level": {"type": "string", "enum": ["low", "high"], "default": "low"},
                "labels": {"type": "array", "items": {"type": "string"}},
                "count": {"type": "integer", "description": "How many.", "minimum": 1, "default": 1},
            },
            "required": ["title"],
        },
    }


@pytest.mark.promise("J1")
async def test_arguments_arrive_as_the_annotated_types_and_defaults_are_left_out(tmp_path):
    got: list[Any] = []

    def take(who: Person, where: Place, level: Level, on: date, many: list[Person], copy: str = "no") -> int:
        """Take everything."""
        got.extend([who, where, level, on, many, copy])
        return len(many)

    given = {
        "who": {"name": "Ada", "age": "36"},
        "where": {"street": "Main", "numbers": ["1", 2]},
        "level": "high",
        "on": "2026-01-31",
        "many": [{"name": "x"}],
    }
    assert await call(tmp_path, take, given) == "1"
    assert got == [
        Person(name="Ada", age=36),
        Place("Main", [1, 2]),
        Level.HIGH,
        date(2026, 1, 31),
        [Person(name="x")],
        "no",
    ]


@pytest.mark.promise("J1")
async def test_sync_functions_run_in_a_thread_and_async_ones_in_the_loop(tmp_path):
    where: list[bool] = []

    def sync() -> None:
        """Look."""
        where.append(threading.current_thread() is threading.main_thread())

    async def in_loop() -> None:
        """Look."""
        where.append(asyncio.current_task() is not None)

    def gives_a_coroutine() -> Any:
        """Look."""
        return in_loop()

    for function in (sync, in_loop, gives_a_coroutine):
        assert await call(tmp_path, function, {}) == "(nothing was returned)"
    assert where == [False, True, True]


@pytest.mark.promise("J1")
@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("text", "text"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Person(name="Ada"), '{"name":"Ada","age":0}'),
        (Place("Main", [1]), '{"street":"Main","numbers":[1]}'),
        (date(2026, 1, 31), '"2026-01-31"'),
        ({"é": Path("/x")}, '{"é":"/x"}'),
        (3.5, "3.5"),
        (ToolResult("as it is", is_error=True), "as it is"),
        (object, "\"<class 'object'>\""),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_a_function_returns_is_text_or_json(tmp_path, value, read):
    def give() -> Any:
        """Give it."""
        return value

    assert await call(tmp_path, give, {}) == read


@pytest.mark.promise("J1", "P6")
async def test_a_huge_result_is_cut_and_all_of_it_is_in_a_file(tmp_path):
    def huge() -> str:
        """Much."""
        return "".join(f"line {n}\n" for n in range(100_000))

    text = await call(tmp_path, huge, {})
    assert 20_000 < len(text) < 35_000
    assert text.startswith("line 0\n") and text.endswith("line 99999\n")
    path = Path(text.split("all of it is in ", 1)[1].split("]", 1)[0])
    assert path.read_text() == huge() and path.stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("J1")
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("problem", "read"),
    [
        (ValueError("bad title"), "ValueError: bad title"),
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
        (StopIteration(), "StopIteration"),
        (TimeoutError("late"), "TimeoutError: late"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_whatever_a_function_raises_is_a_tool_error_and_the_run_goes_on(tmp_path, kind, problem, read):
    def breaks() -> None:
        """Break."""
        raise problem

    async def breaks_async() -> None:
        """Break."""
        raise problem

    text = await call(tmp_path, breaks if kind == "sync" else breaks_async, {})
    assert "raised" in text and read in text


async def test_arguments_that_do_not_fit_never_reach_the_function(tmp_path):
    def never(count: int) -> None:
        """Never."""
        pytest.fail("called")

    text = await call(tmp_path, never, {"count": "many", "more": 1})
    assert "`count`" in text and "`more` is not a parameter" in text


# ── permission ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1", "G2")
@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({}, True),
        ({"permission_mode": "acceptEdits"}, True),
        ({"permission_mode": "dontAsk"}, True),
        ({"permission_mode": "bypassPermissions"}, True),
        ({"disallowed_tools": ["python__open_ticket"]}, False),
        ({"disallowed_tools": ["python__*"], "allowed_tools": ["python__open_ticket"]}, False),
        ({"disallowed_tools": ["python__close_ticket*"]}, True),
    ],
    ids=str,
)
async def test_a_function_runs_unless_a_rule_denies_it(tmp_path, options, runs):
    opened: list[str] = []

    def open_ticket(title: str) -> str:
        """Open a ticket."""
        opened.append(title)
        return "T-1"

    text = await call(tmp_path, open_ticket, {"title": "x"}, **({"permission_mode": "default"} | options))
    assert opened == (["x"] if runs else [])
    assert (text == "T-1") is runs


async def test_a_function_that_is_disallowed_is_not_even_offered(tmp_path):
    def open_ticket(title: str) -> str:
        """Open a ticket."""
        return title

    model = ScriptedModel("ok")
    options = {"tools": [open_ticket], "disallowed_tools": ["python__open_ticket"]}
    async with Team("crew", model=model, cwd=tmp_path, **options) as team:
        await team.run("Go.")
    assert b"open_ticket" not in model.requests[0].prefix.head


@pytest.mark.promise("J1")
async def test_members_and_sub_agents_have_the_functions_and_readers_do_not(tmp_path):
    def open_ticket(title: str) -> str:
        """Open a ticket."""
        return title

    def answer(request: Request):
        if request.agent_name == "team-lead" and len(request.items) == 1:
            return ("Agent", {"description": "x", "prompt": "Go."})
        return "ok"

    model = ScriptedModel(answer)
    async with Team("crew", model=model, cwd=tmp_path, tools=[open_ticket]) as team:
        await team.spawn("ada", "Go.")
        await team.spawn("eve", "Go.", agent_type="Explore")
        await team.run("Go.")
    offered = {r.agent_name: b"python__open_ticket" in r.prefix.head for r in model.requests}
    assert offered.pop("eve") is False
    assert set(offered) > {"team-lead", "ada"} and all(offered.values())


# ── functions that cannot be tools ───────────────────────────────────────────────────────────────────────────


class Opaque:
    pass


def no_docstring(title: str) -> None:
    pass


def no_annotation(title) -> None:
    """Doc."""


def variadic(*titles: str) -> None:
    """Doc."""


def positional(title: str, /) -> None:
    """Doc."""


def takes_opaque(thing: Opaque) -> None:
    """Doc."""


def takes_function(thing: Callable[[], int]) -> None:
    """Doc."""


def unresolved(thing) -> None:
    """Doc."""


unresolved.__annotations__ = {"thing": "NotThere"}


class Tracker:
    def close(self, number: int) -> None:
        """Doc."""


def private(_title: str) -> None:
    """Doc."""


def taken(model_dump: str) -> None:
    """Doc."""


@pytest.mark.promise("J1")
@pytest.mark.parametrize(
    ("function", "why"),
    [
        (no_docstring, "no docstring"),
        (no_annotation, "'title' has no annotation"),
        (variadic, "'titles' cannot be given by name"),
        (positional, "'title' cannot be given by name"),
        (takes_opaque, "JSON cannot hold what it takes"),
        (takes_function, "JSON cannot hold what it takes"),
        (unresolved, "NotThere"),
        (unresolved, "define what it names at the top of the module"),
        (Tracker.close, "tools=[tracker.close]"),
        (private, "'_title' has a name that is taken"),
        (taken, "'model_dump' has a name that is taken"),
        (lambda title: title, "a function with a name"),
        (partial(no_annotation, "x"), "a function with a name"),
        (Opaque, "a function with a name"),
        (3, "a function with a name"),
    ],
    ids=lambda value: getattr(value, "__name__", "") if callable(value) else "",
)
async def test_a_function_that_cannot_be_a_tool_is_refused_with_a_sentence_before_anything(tmp_path, function, why):
    home = tmp_path / "state"
    with pytest.raises(UsageError) as caught:
        async with Team("crew", model=ScriptedModel("ok"), cwd=tmp_path, tools=[function], home=home):
            pytest.fail("entered")
    shown = caught.value.render()
    assert "cannot be a tool" in shown and why in shown
    assert len(shown.splitlines()) <= 12
    assert not list(home.glob("projects/*/*"))
    if hasattr(function, "__code__"):
        assert __file__ in shown


async def test_two_functions_of_one_name_are_refused(tmp_path):
    def make() -> Callable[[], str]:
        def twin() -> str:
            """Doc."""
            return "x"

        return twin

    with pytest.raises(UsageError, match="same name"):
        async with Team("crew", model=ScriptedModel("ok"), cwd=tmp_path, tools=[make(), make()]):
            pytest.fail("entered")


def test_the_functions_of_a_script_work_in_the_one_call(tmp_path):
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = ScriptedModel([("python__add", {"a": 2, "b": 3}), "done"])
    result = teamwright.run("Add.", model=model, cwd=tmp_path, tools=[add], allowed_tools=["python__add"])
    assert result.ok and model.request_text() == "5"
