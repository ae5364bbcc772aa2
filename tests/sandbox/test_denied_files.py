"""Files that deny rules for Read name by a pattern are hidden from commands; of a large directory, the nearest ones."""

import pytest

from teamwright import Team
from teamwright.permissions.excluded_paths import ExcludedPaths
from teamwright.protocol.events import Notice
from teamwright.testing import Call, ScriptedModel
from teamwright.tools.shell import command_confinement
from teamwright.tools.shell.command_confinement import denied_paths

PEM = ExcludedPaths((("**", "*.pem"), ("**", "private")))


def write_keys(root, depth):
    for directory in (root, root.joinpath(*"abcdefgh"[:depth])):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "key.pem").write_text(f"SECRET-{directory.name}")


def test_a_pattern_names_files_at_any_depth_and_a_directory_without_its_contents(tmp_path):
    write_keys(tmp_path, 3)
    (tmp_path / "private").mkdir()
    (tmp_path / "private/inner.pem").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    warnings = []
    found = denied_paths(PEM, [tmp_path], warnings.append)
    assert set(found) == {f"{tmp_path}/key.pem", f"{tmp_path}/a/b/c/key.pem", f"{tmp_path}/private"} and not warnings


def test_in_a_directory_that_is_too_large_the_nearest_files_are_found_and_a_warning_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(command_confinement, "MAX_ENTRIES", 20)
    write_keys(tmp_path, 3)
    for number in range(30):
        (tmp_path / f"{number}.txt").touch()
    warnings = []
    assert denied_paths(PEM, [tmp_path], warnings.append) == (f"{tmp_path}/key.pem",)
    assert len(warnings) == 1 and "more than 20 entries" in warnings[0] and "**/*.pem" in warnings[0]


@pytest.mark.usefixtures("each_implementation")
async def test_a_person_sees_once_in_a_session_that_deeper_files_are_not_hidden(tmp_path, monkeypatch):
    monkeypatch.setattr(command_confinement, "MAX_ENTRIES", 20)
    work = tmp_path / "work"
    write_keys(work, 2)
    for number in range(30):
        (work / f"{number}.txt").touch()
    (tmp_path / "state").mkdir()
    (tmp_path / "state/settings.json").write_text('{"permissions": {"deny": ["Read(**/*.pem)"]}}')
    read = Call("Bash", {"command": 'python3 -c \'print(open("key." + "pem").read())\'', "description": "read"})
    model = ScriptedModel([read, read, "Done."])
    options = {"cwd": work, "home": tmp_path / "state", "sandbox": "auto", "permission_mode": "bypassPermissions"}
    async with Team("crew", model=model, **options) as team:
        texts = [event.text async for event in team.run("Go.").events() if isinstance(event, Notice)]
    assert len([text for text in texts if "more than 20 entries" in text]) == 1
    assert "SECRET" not in model.request_text(1) + model.request_text(2)
