"""The base of the inputs of tools. Importing it loads pydantic, so the module of a tool loads with its first call."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ToolInput(BaseModel):
    """The base of all inputs. Extra keys are refused; numbers and booleans given as strings are accepted."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class NoInput(ToolInput):
    """The input of tools without parameters."""
