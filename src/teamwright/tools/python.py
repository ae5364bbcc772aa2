"""A user's Python function as a tool: schema from annotations and docstring, name `python__<function>`.

Sync functions run in a thread; an exception is a tool error that the model reads, never a crash.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any, get_type_hints

from pydantic import create_model

from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult
from teamwright.permissions.verdict import Access
from teamwright.protocol.errors import UsageError


class PythonTool(Tool[ToolInput]):
    """One function. Permission rules name it `python__<function>`."""

    def __init__(self, function: Callable[..., Any], name: str, input_type: type[ToolInput], text: str) -> None:
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self._parameters = tuple(input_type.model_fields)
        self._text = text
        self._access = Access(subject=name)
        self.name = name
        self.input_type = input_type

    @property
    def description(self) -> str:
        """The function's docstring."""
        return self._text

    def summary(self, call: ToolInput) -> str:
        """The call as Python writes it."""
        shown = ", ".join([f"{key}={value!r}" for key, value in call.model_dump().items()])
        return f"{self._function.__name__}({shown})"

    def access(self, call: ToolInput, ctx: ToolContext) -> Access:
        """What it touches is the program's own business: the program offered it."""
        return self._access

    async def run(self, call: ToolInput, ctx: ToolContext) -> ToolResult:
        """Call it with the validated arguments."""
        arguments = {name: getattr(call, name) for name in self._parameters}
        try:
            if self._is_async:
                value = await self._function(**arguments)
            else:
                value = await asyncio.to_thread(self._function, **arguments)
        except Exception as problem:
            return ToolResult.error(f"{self._function.__name__} raised {type(problem).__name__}: {problem}")
        if isinstance(value, ToolResult):
            return value
        return ToolResult(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def python_tool(function: Callable[..., Any]) -> PythonTool:
    """The function as a tool. Raises UsageError when it has no docstring or a parameter without annotation."""
    text = inspect.getdoc(function)
    name = getattr(function, "__name__", "")
    if not text or not name.isidentifier():
        raise UsageError("usage", f"the tool {name or function!r} needs a name and a docstring: the model reads it")
    hints = get_type_hints(function)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD} or parameter.name not in hints:
            raise UsageError("usage", f"parameter {parameter.name!r} of the tool {name} needs a type annotation")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    model = create_model(f"{name}_input", __base__=ToolInput, **fields)
    return PythonTool(function, f"python__{name}", model, text)
