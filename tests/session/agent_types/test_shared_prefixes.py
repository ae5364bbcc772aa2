"""Agents that begin alike have one prefix, made once; whatever differs has its own. What a start and an end cost."""

import gc
import os
import sys
import threading
from collections import Counter

from teamwright import Team
from teamwright.testing import Call, ScriptedModel

LOOKED_AT = frozenset({"open", "os.scandir", "os.listdir", "os.mkdir", "os.rename", "os.remove"})
OF_SUB_AGENTS = ("teamwright.tools.team.agent", "teamwright.tools.subagent", "teamwright.subagents")


class Touched:
    """What a sub-agent does to files and directories while `on`: the audit's name of it, and the file's name.

    Others work meanwhile: sessions that are too old are looked for, watchers read what changed, requests are looked up.
    """

    def __init__(self):
        self.on, self.seen, self.thread = False, Counter(), threading.get_ident()
        sys.addaudithook(self)

    def __call__(self, event, args):
        if not self.on or event not in LOOKED_AT or threading.get_ident() != self.thread:
            return
        if isinstance(args[0], str | os.PathLike) and _is_of_sub_agent():
            self.seen[event, os.path.splitext(args[0])[1]] += 1


def _is_of_sub_agent() -> bool:
    """Return True when the Agent tool or the run of a sub-agent is among the callers."""
    frame = sys._getframe()
    while frame is not None and not frame.f_globals.get("__name__", "").startswith(OF_SUB_AGENTS):
        frame = frame.f_back
    return frame is not None


def agent(kind: str) -> Call:
    return Call("Agent", {"subagent_type": kind, "description": "Look", "prompt": f"Look as {kind}."})


async def test_sub_agents_of_a_kind_share_their_prefix_and_others_do_not(tmp_path):
    calls = [agent("general-purpose"), agent("Explore"), agent("general-purpose"), "Done."]

    def answer(request):
        asked = sum(b'"type":"tool_use"' in item for item in request.items)
        return calls[asked] if request.agent_name == "team-lead" else "I looked."

    model = ScriptedModel(answer)
    async with Team("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions") as team:
        result = await team.run("Do it.")
        [directory] = [team.session.log.path.parent / "prefixes"]
        kept = {path.stem for path in directory.iterdir()}
    assert result.ok
    first, explorer, second = [request.prefix for request in model.requests if request.agent_name != "team-lead"]
    assert first is second and first.head != explorer.head
    lead = next(request.prefix for request in model.requests if request.agent_name == "team-lead")
    assert kept == {first.digest, explorer.digest, lead.digest}


async def test_a_kind_that_was_changed_begins_with_its_new_words(tmp_path):
    kinds = tmp_path / "home" / "agents"
    kinds.mkdir(parents=True)
    file = kinds / "looker.md"
    file.write_text("---\nname: looker\ndescription: looks\n---\nYou look at first words.\n")

    def answer(request):
        asked = sum(b'"type":"tool_use"' in item for item in request.items)
        if request.agent_name != "team-lead":
            file.write_text("---\nname: looker\ndescription: looks\n---\nYou look at second words.\n")
            return "I looked."
        return agent("looker") if asked < 2 else "Done."

    model = ScriptedModel(answer)
    options = {"permission_mode": "bypassPermissions", "home": tmp_path / "home"}
    async with Team("crew", model=model, cwd=tmp_path, **options) as team:
        assert (await team.run("Do it.")).ok
    heads = [request.prefix.head for request in model.requests if request.agent_name != "team-lead"]
    assert [b"first words" in head for head in heads] == [True, False]
    assert [b"second words" in head for head in heads] == [False, True]


async def test_a_start_makes_three_files_and_neither_lists_nor_makes_a_directory(tmp_path):
    touched = Touched()

    def answer(request):
        if request.agent_name != "team-lead":
            return "I looked."
        asked = sum(b'"type":"tool_use"' in item for item in request.items)
        touched.on = asked == 2  # what is made, and loaded, once a session is there by then
        return agent("general-purpose") if asked < 3 else "Done."

    async with Team("crew", model=ScriptedModel(answer), cwd=tmp_path, permission_mode="bypassPermissions") as team:
        assert (await team.run("Do it.")).ok
    assert touched.seen == {("open", ".jsonl"): 1, ("open", ".json"): 1, ("open", ".output"): 3}


async def test_what_a_sub_agent_was_is_free_at_its_end_without_a_search_for_garbage(tmp_path):
    def answer(request):
        if request.agent_name != "team-lead":
            return "I looked."
        return "Done." if any(b'"type":"tool_use"' in item for item in request.items) else agent("general-purpose")

    gc.disable()
    try:
        async with Team("crew", model=ScriptedModel(answer), cwd=tmp_path, permission_mode="bypassPermissions") as team:
            assert (await team.run("Do it.")).ok
            assert (len(team.session.agents.runs), set(team.session.agent_factory.living)) == (1, {"team-lead"})
    finally:
        gc.enable()
