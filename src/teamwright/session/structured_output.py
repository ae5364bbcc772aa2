"""The final answer of a run as a value: asked for with the prompt, read, and asked for once more when it does not fit.

Depends on the lead and on the form of the answer; loaded only by runs with one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent import TurnEnd
from teamwright.protocol.errors import ModelFailed, TeamwrightError
from teamwright.protocol.messages import Block
from teamwright.session.answer_format import MAX_PROBLEM_CHARACTERS, OutputFormat
from teamwright.teams.lead_agent import Lead

REPAIR = "Your final answer was not accepted: {why}\nAnswer again, with the JSON value alone. It must fit this schema:"


def with_request(lead: Lead, prompt: Sequence[Block], form: OutputFormat) -> Sequence[Block]:
    """Return the prompt followed by the request for this form; an empty prompt unchanged."""
    return prompt and [*prompt, lead.agent.tags.note(form.request())]


class ReadOutput(Struct, frozen=True):
    """The end of a run and its value. `error` says why there is none; both are empty when the run is not done."""

    end: TurnEnd
    value: Any = None
    error: TeamwrightError | None = None


async def read_output(
    lead: Lead, tasks_open: Callable[[], Awaitable[bool]], end: TurnEnd, form: OutputFormat
) -> ReadOutput:
    """Read the value of the final answer. When it does not fit, the lead is asked once more."""
    why = ""
    for is_repaired in (False, True):
        if is_repaired:
            note = lead.agent.tags.note(form.request(REPAIR.format(why=why)))
            lead.add_prompt([note])
            end = await lead.run_until_done(tasks_open)
        if end.stop != "done":
            return ReadOutput(end)
        try:
            text, value = form.read(end.text)
        except ValueError as problem:
            why = str(problem)
        else:
            return ReadOutput(replace(end, text=text), value)
    what = f"the final answer does not fit the schema, also after a second request: {why[:MAX_PROBLEM_CHARACTERS]}"
    return ReadOutput(end, error=ModelFailed("invalid-output", what))
