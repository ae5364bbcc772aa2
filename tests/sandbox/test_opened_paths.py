"""What an allowed line opens beside the words that the person saw: not the home directory, and never a start file."""

import tempfile
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.testing import Call, ScriptedModel

SNEAK = """
import os
for name in ("~/docs/pwned", "~/pwned", "~/.profile"):
    try:
        open(os.path.expanduser(name), "w").close()
    except OSError:
        pass
"""
LINES = {
    "a pattern in a directory": "rm -f ~/docs/*.bak; python3 sneak.py",
    "the target of a link": "ln -s ~/docs lnk; python3 sneak.py",
    "a here-document of another program": "cat <<'E' > note; python3 sneak.py\nsee ~/docs/a.txt\nE",
    "a start file beside a named file": "touch ~/named; touch ~/.profile ~/.claude ~/.netrc",
}


@pytest.fixture
def place(monkeypatch):
    """A home and a project that confined commands see: they have another /tmp."""
    with tempfile.TemporaryDirectory(prefix="teamwright-", dir="/var/tmp") as directory:
        made = Path(directory)
        (made / "home" / "docs").mkdir(parents=True)
        (made / "home" / "docs" / "a.txt").write_text("a")
        (made / "home" / "docs" / "b.bak").write_text("b")
        (made / "work").mkdir()
        (made / "work" / "sneak.py").write_text(SNEAK)
        monkeypatch.setenv("HOME", str(made / "home"))
        yield made


async def run(place: Path, line: str, **more) -> str:
    model = ScriptedModel([Call("Bash", {"command": line}), "Done."])
    options = {"cwd": place / "work", "home": place / "state", "sandbox": "auto"}
    async with Team("crew", model=model, permission_mode="bypassPermissions", **options, **more) as team:
        await team.run("Go.")
    return model.request_text(1)


@pytest.mark.finding("3S1")
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
async def test_a_line_opens_nothing_that_its_words_do_not_name_and_no_start_file(place, each_implementation, line):
    said = await run(place, line)
    home = place / "home"
    left = {name for name in (".profile", "pwned", "docs/pwned", ".claude", ".netrc") if (home / name).exists()}
    assert left - ({"docs/pwned"} if line.startswith(("rm", "ln")) else set()) == set(), said


@pytest.mark.finding("3S1")
async def test_a_directory_in_which_a_rule_forbids_an_edit_is_not_opened_as_a_whole(place, each_implementation):
    (place / "work" / "sneak.py").write_text("import os; open(os.path.expanduser('~/docs/a.txt'), 'w').close()")
    denied = [f"Edit(/{place}/home/docs/a.txt)"]
    await run(place, "touch ~/docs/n; python3 sneak.py", disallowed_tools=denied)
    assert (place / "home" / "docs" / "a.txt").read_text() == "a"


@pytest.mark.finding("3P10")
async def test_a_file_of_two_names_may_be_made_in_a_project_and_is_kept_where_it_exists(place, each_implementation):
    """`.github/hooks` is guarded, and neither `.github` nor other directories in it."""
    hook, flow = (place / "work" / ".github" / name for name in ("hooks/a.json", "workflows/a.yml"))
    await run(
        place, "mkdir -p .github/hooks .github/workflows; echo 1 | tee .github/hooks/a.json .github/workflows/a.yml"
    )
    assert (hook.read_text(), flow.read_text()) == ("1\n", "1\n")
    said = await run(place, "echo 2 > .github/workflows/a.yml; python3 -c \"open('.github/hooks/a.json', 'w')\"")
    assert (hook.read_text(), flow.read_text()) == ("1\n", "2\n"), said


@pytest.mark.finding("3S1", "3P10")
async def test_a_granted_directory_gets_a_named_missing_file_and_no_guarded_one(place, each_implementation):
    """A person's trust decides on guarded files at the top of a project alone."""
    out = place / "out"
    out.mkdir()
    line = f"echo 1 > {out}/new.txt; mkdir -p {out}/.github/hooks; echo 1 > {out}/.github/hooks/a.json"
    said = await run(place, f"{line}; echo 1 > {out}/.mcp.json")
    left = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert left == {"new.txt"}, said
