"""Notifications to a person who is not at the terminal: the command and the webhook of the settings.

Each has a time limit; a failure is reported once. Depends on a session. The terminal decides when to notify.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import asdict

from teamwright.config.settings.settings import NotifySettings
from teamwright.processes.commands import ProcessCommand, ProcessOutput, run_command
from teamwright.processes.program_environment import own_variables
from teamwright.session.session import Session
from teamwright.tools.shell.bash_settings import command_environment

TIMEOUT_S = 10.0
"""Seconds that the command and the webhook may take."""

CLOSE_S = 2.0
"""Seconds that the end of a session waits for notifications that are on their way."""

MAX_OUTPUT = 2_000


class Notification(Struct, frozen=True):
    """A notification: its kind (permission, question, plan or done), who needs the person, what for, what to type.

    `answer` is the command that answers from any terminal; empty when nothing waits for an answer.
    """

    kind: str
    who: str
    what: str
    answer: str = ""
    session: str = ""

    @property
    def title(self) -> str:
        """The first line: who, and what happened."""
        return f"{self.who} is done" if self.kind == "done" else f"{self.who} asks: {self.kind}"

    @property
    def text(self) -> str:
        """All of it in a few lines."""
        return "\n".join(part for part in (self.title, self.what, self.answer) if part)


class NotificationSender(Struct):
    """Sends notifications by the settings. `mask` hides secrets; `on_failure` receives a sentence once for each way."""

    settings: NotifySettings
    cwd: Path
    env: Mapping[str, str]
    mask: Callable[[str], str]
    on_failure: Callable[[str], None]
    _failed: set[str] = field(default_factory=set[str])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def send(self, notification: Notification) -> None:
        """Send a notification to the command and the webhook, where they are set, without waiting."""
        masked = Notification(**{name: self.mask(value) for name, value in asdict(notification).items()})
        if self.settings.command:
            self._start("notify.command", self._run_command(masked))
        if self.settings.webhook:
            self._start("notify.webhook", self._post(masked))

    async def close(self) -> None:
        """Wait a short time for notifications that are on their way, then cancel them."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _start(self, setting: str, sending: Coroutine[Any, Any, str]) -> None:
        task = asyncio.create_task(self._report(setting, sending), name=f"notification by {setting}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report(self, setting: str, sending: Coroutine[Any, Any, str]) -> None:
        """Wait for the end, and report the first failure of each way."""
        if (problem := await sending) and setting not in self._failed:
            self._failed.add(setting)
            self.on_failure(f"{setting}: no notification was sent: {self.mask(problem)}")

    async def _run_command(self, notification: Notification) -> str:
        """Run the command with the notification as JSON on its stdin; return why it failed, or an empty text."""
        command = ProcessCommand(
            ("/bin/sh", "-c", self.settings.command),
            self.cwd,
            self.env,
            input=json.dumps(body_of(notification), ensure_ascii=False).encode("utf-8", "replace") + b"\n",
            is_for_agent=False,
        )
        try:
            result = await run_command(command, ProcessOutput(MAX_OUTPUT), timeout_s=TIMEOUT_S)
        except OSError as problem:
            return str(problem)
        if result.timed_out:
            return f"the command took longer than {TIMEOUT_S:.0f} s"
        return f"the command exited with {result.exit_code}" if result.exit_code else ""

    async def _post(self, notification: Notification) -> str:
        """Send the notification to the webhook; return why it failed, or an empty text."""
        import httpx2  # loaded only where a webhook is set

        from teamwright.processes.http import hide_http_logs

        hide_http_logs()
        url = self.settings.webhook
        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False) as client:
                if is_ntfy(self.settings):
                    # A header cannot contain every character, so the title is a part of the body.
                    answer = await client.post(url, content=notification.text.encode("utf-8", "replace"))
                else:
                    answer = await client.post(url, json=body_of(notification))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as problem:
            return type(problem).__name__
        return "" if answer.is_success else f"the service answered {answer.status_code}"


def body_of(notification: Notification) -> dict[str, str]:
    """Return the JSON for a command and a webhook. Slack and similar services read `text`."""
    return {"text": notification.text, "title": notification.title, **asdict(notification)}


def is_ntfy(settings: NotifySettings) -> bool:
    """Return True when the body is plain text, as ntfy reads it."""
    host = urlsplit(settings.webhook).hostname or ""
    return settings.format == "ntfy" or (settings.format == "auto" and host.startswith("ntfy."))


def notification_sender(
    session: Session, mask: Callable[[str], str], on_failure: Callable[[str], None]
) -> NotificationSender:
    """Return the sender for a session."""
    context = session.reloading.context
    env = own_variables(command_environment(context.settings.bash, context.env))
    return NotificationSender(context.settings.notify, session.agent_factory.work_directory, env, mask, on_failure)
