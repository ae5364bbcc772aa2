"""Output styles: the chosen one is in the lead's prompt, and in no other agent's."""

import json
import os
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.config.output_styles import output_styles, style_text
from teamwright.storage.paths import find_home
from teamwright.testing import Call, ScriptedModel

TERSE = "---\nname: Terse\ndescription: Short.\n---\nAnswer in three sentences.\n"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def heads(tmp_path: Path, style: str) -> tuple[list[str], str]:
    settings = tmp_path / "settings.json"
    put(settings, json.dumps({"outputStyle": style}))
    start = Call("Agent", {"subagent_type": "general-purpose", "prompt": "x", "description": "d"})
    model = ScriptedModel([start, "Found.", "Done."])
    (tmp_path / "work").mkdir(exist_ok=True)
    more = {"settings_file": settings, "permission_mode": "bypassPermissions"}
    async with Team("crew", model=model, cwd=tmp_path / "work", home=tmp_path / "home", **more) as team:
        await team.run("Go.")
    events = "".join(path.read_text() for path in (tmp_path / "home").rglob("events.jsonl"))
    return [request.prefix.head.decode() for request in model.requests], events


@pytest.mark.promise("H4")
async def test_the_chosen_style_is_in_the_leads_prompt_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    put(tmp_path / "user/.claude/output-styles/short.md", TERSE)
    made, _ = await heads(tmp_path, "terse")
    assert ["Answer in three sentences." in head for head in made] == [True, False, True]
    made, events = await heads(tmp_path, "trese")
    assert not any("Answer in three sentences." in head for head in made)
    assert "there is no output style 'trese'; did you mean Terse?" in events


def test_a_persons_style_comes_first_and_no_link_leads_out_of_a_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    put(tmp_path / "user/.claude/output-styles/terse.md", TERSE)
    put(tmp_path / "repo/.claude/output-styles/terse.md", TERSE.replace("three", "ten"))
    put(tmp_path / "repo/.claude/output-styles/plain.md", "No front matter.")
    put(tmp_path / "secret.md", "secret")
    os.symlink(tmp_path / "secret.md", tmp_path / "repo/.claude/output-styles/stolen.md")
    found = output_styles(find_home(), tmp_path / "repo", compat=True)
    assert [style.name for style in found] == ["Terse", "plain", "Terse"]
    assert style_text("TERSE", found) == ("Answer in three sentences.", "")
    assert style_text("default", found) == ("", "")
    assert not output_styles(find_home(), tmp_path / "repo", compat=False)
