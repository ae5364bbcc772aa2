"""A user's Python function as a tool: schema from annotations and docstring, name `python__<function>`.

Sync functions run in threads that nothing else uses, so that slow ones never hold up the library. An exception becomes
a tool error for the model, never a crash. An unsuitable function is refused before anything starts, with the reason.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import Any, TypeAlias, get_type_hints

from pydantic import PydanticUserError, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import to_json

from teamwright.agent.tool import CallContext, Tool, ToolContext, ToolResult, input_schema
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import Access
from teamwright.protocol.errors import UsageError
from teamwright.protocol.program_log import log_failure
from teamwright.protocol.time_limit import time_limit
from teamwright.tools.long_results import fit_result

Function: TypeAlias = Callable[..., Any]

DescribeCaller: TypeAlias = Callable[[str], tuple[str, str, str]]
"""Returns the lead or the member that an agent works for, the name of its team and the number of its task."""

PREFIX = "python__"
"""The prefix of such a tool's name, for models and for permission rules."""


MAX_THREADS = 32
"""The most sync functions that run at once in this process, for all teams; further calls wait for one to return."""


@cache
def _tool_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="teamwright-function")


class PythonTool(Tool[ToolInput]):
    """One function. Permission rules name it `python__<function>`."""

    origin = "a function of the program"

    def __init__(
        self,
        function: Function,
        name: str,
        input_type: type[ToolInput],
        text: str,
        *,
        context_names: Sequence[str],
        describe_caller: DescribeCaller,
        timeout_s: float | None,
    ) -> None:
        self._function = function
        self._context_names = context_names
        self._describe_caller = describe_caller
        self._timeout_s = timeout_s
        self._is_async = inspect.iscoroutinefunction(function)
        self._parameters = tuple(input_type.model_fields)
        self._text = text
        self._access = Access()
        self.name = f"{PREFIX}{name}"
        self.input_type = input_type

    @property
    def description(self) -> str:
        """The function's docstring."""
        return self._text

    def summary(self, call: ToolInput) -> str:
        """Return the call in Python syntax."""
        arguments = ", ".join([f"{name}={getattr(call, name)!r}" for name in self._parameters])
        return f"{self.name.removeprefix(PREFIX)}({arguments})"

    def access(self, call: ToolInput, ctx: ToolContext) -> Access:
        """Return an unknown access: rules about the tool's name decide, else the mode."""
        return self._access

    async def run(self, call: ToolInput, ctx: ToolContext) -> ToolResult:
        """Call the function with the validated arguments."""
        arguments = {name: getattr(call, name) for name in self._parameters}
        if self._context_names:
            member, team, task = self._describe_caller(ctx.member)
            arguments |= dict.fromkeys(
                self._context_names, CallContext(ctx.member, member, team, task, ctx.tool_use_id, ctx.workplace.cwd)
            )
        limit: asyncio.Timeout | None = None
        try:
            async with time_limit(self._timeout_s) as limit:
                value = await self._call(arguments)
        except TimeoutError as problem:
            if limit is None or not limit.expired():
                return self._raised(problem, ctx)
            may_run = "" if self._is_async else " It may still be running."
            return ToolResult.error(f"{self.name} did not return within {self._timeout_s:g} s.{may_run}")
        except (Exception, SystemExit) as problem:
            # SystemExit is caught too: a function that calls a command line's entry must not end the program.
            return self._raised(problem, ctx)
        if not isinstance(value, ToolResult):
            return ToolResult(fit_result(_as_text(value), ctx))
        content = fit_result(value.content, ctx) if isinstance(value.content, str) else value.content
        return ToolResult(content, value.is_error, value.brief, value.ends_turn, value.facts)

    def _raised(self, problem: BaseException, ctx: ToolContext) -> ToolResult:
        log_failure(f"{self.name}, called by {ctx.member}, failed", problem)
        error_text = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
        return ToolResult.error(f"{self.name} raised {fit_result(error_text, ctx)}")

    async def _call(self, arguments: dict[str, Any]) -> Any:
        value: Any
        if self._is_async:
            value = await self._function(**arguments)
        else:
            context = copy_context()
            value, problem = await asyncio.get_running_loop().run_in_executor(
                _tool_threads(), lambda: context.run(_call_in_thread, self._function, arguments)
            )
            if problem is not None:
                raise problem
        return await value if inspect.isawaitable(value) else value


def _without_team(caller: str) -> tuple[str, str, str]:
    return caller, "", ""


def python_tools(functions: Sequence[Function], describe_caller: DescribeCaller = _without_team) -> list[PythonTool]:
    """Return the functions as tools. Raises UsageError for an unsuitable one, and for two with one name."""
    tools: dict[str, PythonTool] = {}
    for function in functions:
        tool = python_tool(function, describe_caller)
        if tool.name in tools:
            raise _refused_error(function, "another tool has the same name", "give one of the two another name")
        tools[tool.name] = tool
    return list(tools.values())


def python_tool(function: Function, describe_caller: DescribeCaller = _without_team) -> PythonTool:
    """Return the function as a tool. Raises UsageError, with the reason, when it is unsuitable."""
    name = getattr(function, "__name__", "")
    if not callable(function) or inspect.isclass(function) or not name.isidentifier():
        raise _refused_error(function, "a tool is a function with a name", "def open_ticket(title: str) -> str: …")
    text = inspect.getdoc(function)
    if not text:
        raise _refused_error(
            function, "it has no docstring, which is all that the model reads of it", "add a docstring"
        )
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as problem:
        do = "define what it names at the top of the module" if isinstance(problem, NameError) else ""
        raise _refused_error(function, f"its annotations cannot be read: {problem}", do) from problem
    parameters = inspect.signature(function).parameters.values()
    context_names = tuple(p.name for p in parameters if hints.get(p.name) is CallContext)
    fields = {p.name: _field(function, p, hints) for p in parameters if p.name not in context_names}
    return PythonTool(
        function,
        name,
        _input_type(function, name, fields),
        text,
        context_names=context_names,
        describe_caller=describe_caller,
        timeout_s=_timeout_s(function),
    )


def _timeout_s(function: Function) -> float | None:
    """Return the seconds that a call of the function may take: its attribute `timeout_s`; None without one."""
    value: object = getattr(function, "timeout_s", None)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0):
        return value
    raise _refused_error(function, f"its timeout_s is no number of seconds above 0: {value!r:.60}", "timeout_s = 30")


def _field(function: Function, parameter: inspect.Parameter, hints: dict[str, Any]) -> tuple[Any, Any]:
    if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
        raise _refused_error(
            function, f"parameter {parameter.name!r} cannot be given by name", "only plain parameters work"
        )
    if parameter.name not in hints and parameter.name in ("self", "cls"):
        raise _refused_error(function, "it is a method of no object", f"tools=[tracker.{function.__name__}]")
    if parameter.name not in hints:
        raise _refused_error(function, f"parameter {parameter.name!r} has no annotation", f"{parameter.name}: str")
    return hints[parameter.name], ... if parameter.default is parameter.empty else parameter.default


def _input_type(function: Function, name: str, fields: dict[str, Any]) -> type[ToolInput]:
    """Return the input type with its schema built now, so that a fault appears before the session starts."""
    odd = [field for field in fields if field[0] == "_" or (field.startswith("model_") and hasattr(ToolInput, field))]
    if odd:
        raise _refused_error(
            function, f"parameter {odd[0]!r} has a name that is taken", f"call it {odd[0].strip('_')}_value"
        )
    try:
        with warnings.catch_warnings(action="ignore"):
            model = create_model(f"{name}_input", __base__=ToolInput, **fields)
            input_schema(model, is_ours=False)
    except (PydanticUserError, PydanticSchemaGenerationError, TypeError, ValueError) as problem:
        first = str(problem).split("\n", 1)[0].split(". ", 1)[0]
        raise _refused_error(function, f"JSON cannot hold what it takes: {first}") from problem
    return model


def _refused_error(function: object, why: str, do: str = "") -> UsageError:
    name = getattr(function, "__qualname__", "") or repr(function)[:60]
    code = getattr(function, "__code__", None)
    where = [("defined at", f"{code.co_filename}:{code.co_firstlineno}")] if code is not None else []
    return UsageError(
        "usage",
        f"{name} cannot be a tool: {why}",
        looked_at=where,
        do=[do] if do else [],
        note="nothing was started",
    )


def _call_in_thread(function: Function, arguments: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """Call the function in the thread.

    An exception is returned as a value, because a future cannot hold a StopIteration.
    """
    try:
        return function(**arguments), None
    except BaseException as problem:
        return None, problem


def _as_text(value: Any) -> str:
    """Return text unchanged and other values as JSON: models, dataclasses and dates have one, others use `str`."""
    if isinstance(value, str):
        return value
    if value is None:
        return "(nothing was returned)"
    try:
        return to_json(value, fallback=str, inf_nan_mode="strings").decode()
    except ValueError:
        return str(value)
