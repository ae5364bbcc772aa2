"""The terminal in README.md is a recording of examples/at_the_terminal.toml: it plays as it is shown there."""

from pathlib import Path

import pytest

from tests.ui.terminal_driver import Person

SCRIPT = Path(__file__).parents[3] / "examples" / "at_the_terminal.toml"
PAGE = "# Flags\n\n- `--json`: one object a line.\n"


@pytest.mark.slow
@pytest.mark.promise("H9", "K5", "K6")
def test_the_recorded_team_asks_before_it_writes_and_what_it_wrote_is_shown_and_taken_back(repo):
    (repo / "src").mkdir()
    (repo / "docs").mkdir()
    (repo / "src" / "cli.py").write_text('add("--verbose")\nadd("--since")\nadd("--json")\n')
    page = repo / "docs" / "flags.md"
    page.write_text(PAGE)
    person = Person("--model", f"scripted:{SCRIPT}", cwd=repo)
    try:
        person.sees("/help", "\n>")
        person.says("Which flags does docs/flags.md lack? Add them.")
        person.sees("? writer wants to use Edit", "+- `--since TIME`", "allow?")
        assert page.read_text() == PAGE
        person.says("y")
        person.sees("Done: docs/flags.md lacked --verbose and --since; writer added both.", "2/2 tasks")
        assert page.read_text().startswith(PAGE) and "--verbose" in page.read_text()
        person.says("/diff")
        person.sees("docs/flags.md  +2 -0  writer 1 edit")
        person.until(lambda rows: any("3 idle" in row or "lead   idle" in row for row in rows))
        person.says("/undo")
        person.sees("take this back?")
        person.says("y")
        person.until(lambda _rows: page.read_text() == PAGE)
    finally:
        person.ends()
