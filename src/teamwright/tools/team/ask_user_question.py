"""The AskUserQuestion tool: asks the user a question."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import Approver, Question


class QuestionOption(ToolInput):
    """Answer."""

    label: str
    description: str | None = None


class UserQuestion(ToolInput):
    """Question with answers."""

    question: str
    header: str | None = Field(None, description="One or two words.")
    options: list[QuestionOption | str] = Field(default_factory=list[QuestionOption | str], description="2 to 4.")
    multiSelect: bool = False


class AskUserInput(ToolInput):
    """One to four questions."""

    questions: list[UserQuestion] = Field(min_length=1, max_length=4)


class AskUserQuestion(Tool[AskUserInput]):
    """The AskUserQuestion tool. Its result says so when no user can answer."""

    name = "AskUserQuestion"
    input_type = AskUserInput

    def __init__(
        self,
        member: str,
        approver: Approver,
        mark_blocked: Callable[[str | None], None] | None = None,
    ) -> None:
        self._member = member
        self._approver = approver
        self._mark_blocked = mark_blocked

    def summary(self, call: AskUserInput) -> str:
        """Return the first question."""
        return f"asks: {call.questions[0].question}"

    async def run(self, call: AskUserInput, ctx: ToolContext) -> ToolResult:
        """Ask the questions one after another. An unanswered one ends the call with advice."""
        answers: list[str] = []
        for one in call.questions:
            labels = tuple(option if isinstance(option, str) else option.label for option in one.options)
            question = Question(
                self._member,
                self.name,
                "question",
                one.question,
                "",
                options=labels,
                input=one.model_dump(exclude_none=True),
                owner=self._member,
                tool_use_id=ctx.tool_use_id,
                description=one.header or "",
            )
            if self._mark_blocked is not None:
                self._mark_blocked("an answer of the user")
            try:
                answer = await self._approver.ask(question)
            finally:
                if self._mark_blocked is not None:
                    self._mark_blocked(None)
            if not answer.allowed:
                why = answer.text or "No user is present to answer."
                return ToolResult(f"{why}\nDecide yourself, and state in your answer what you assumed.", brief=why)
            answers.append(f"{one.question}\n→ {answer.text}")
        return ToolResult("The user answered:\n" + "\n".join(answers), brief=answers[0])
