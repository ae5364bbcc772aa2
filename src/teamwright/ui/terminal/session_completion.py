"""Completions of the Tab key in a session, and the sentence for a mentioned file that does not exist.

Depends on sessions and on the tracked files of the repository.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.session.control.person_actions import member_names
from teamwright.session.prompt_input import missing_mentions
from teamwright.session.server_prompts import complete_argument
from teamwright.session.server_resources import complete_resource, find_mentions, resource_servers
from teamwright.session.session import Session
from teamwright.session.skills.run_command import list_commands
from teamwright.ui.display_text import clean
from teamwright.ui.terminal.file_search import TrackedFiles
from teamwright.ui.terminal.line_completion import MAX_CANDIDATES, Candidate, candidates, mentioned_path

MAX_MISSING = 3
"""The most missing files that are named."""


class SessionCompletion(Struct):
    """The completions of one session."""

    session: Session
    files: TrackedFiles

    async def complete(self, text_before: str) -> list[Candidate]:
        """Return the completions for the text before the cursor. Files are listed in a thread."""
        is_command = text_before.startswith("/")
        custom = [(one.name, one.about) for one in list_commands(self.session)] if is_command else []
        tracked = await self.files.paths() if mentioned_path(text_before) else ()
        members, cwd = member_names(self.session), self.session.agent_factory.cwd
        found = await asyncio.to_thread(candidates, text_before, members, cwd, custom, tracked)
        return [*await self._of_servers(text_before), *found]

    async def _of_servers(self, text_before: str) -> list[Candidate]:
        """Return resources of MCP servers after `@`, and values for the argument of a server's prompt."""
        if word := mentioned_path(text_before):
            names = [f"{name}:" for name in resource_servers(self.session) if name.startswith(word)]
            uris = await complete_resource(self.session, word)
            return [Candidate(f"@{clean(one)}", len(word) + 1, "resource") for one in [*names, *uris][:MAX_CANDIDATES]]
        name, *words = text_before.split(" ")
        if not words or not name.startswith("/"):
            return []
        values = await complete_argument(self.session, name, words)
        return [Candidate(clean(one), len(words[-1]), "value") for one in values[:MAX_CANDIDATES]]

    async def missing_file_lines(self, prompt: str) -> list[str]:
        """Return a line for each file that the prompt mentions and that does not exist."""
        names = {LEAD, LEAD_ALIAS, *(name.lower() for name in member_names(self.session))}
        cwd = self.session.agent_factory.cwd
        names |= {f"{server}:{uri}".lower() for server, uri in find_mentions(self.session, prompt)}
        missing = [name for name in missing_mentions(prompt, cwd) if name.lower() not in names][:MAX_MISSING]
        tracked = await self.files.paths() if missing else ()
        return [self._missing_line(name, tracked) for name in missing]

    def _missing_line(self, name: str, tracked: Sequence[str]) -> str:
        base = name.rstrip("/").rpartition("/")[2].lower()
        same = [path for path in tracked if path.lower().rpartition("/")[2] == base]
        close = f"; did you mean @{same[0]}?" if len(same) == 1 and clean(same[0]) == same[0] else ""
        return f"  there is no file {clean(name)}: the prompt was sent without it{close}"
