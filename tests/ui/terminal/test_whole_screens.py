"""Whole screens in tmux, narrow and wide, light and dark: no line is wider than the window, no word is broken."""

from pathlib import Path

import pytest

from teamwright.ui.display_text import cell_width
from tests.support.programs import needs
from tests.support.waits import wait_until
from tests.ui.tmux_stage import PROGRAM, Stage, Terminal

pytestmark = [needs("tmux"), pytest.mark.promise("H9", "K11")]

SENTENCE = "Parsers read expressions, evaluate sub-expressions and report the position of each mistake that they find"
SCRIPT = f'''
[script]
name = "all kinds of lines"
[[agent.lead.turn]]
say = """
# What I found about the parser and its tests

{SENTENCE}. {SENTENCE}.

- {SENTENCE}
- short

| file | purpose | note |
|------|---------|------|
| src/parser.py | {SENTENCE} | {SENTENCE} |
| src/cli.py | the command line | none |

> {SENTENCE}

```python
def double(value):
    return value * 2
```
"""
[[agent.lead.turn.call]]
tool = "TaskCreate"
input = {{ subject = "{SENTENCE}", description = "d" }}
[[agent.lead.turn.call]]
tool = "Bash"
input = {{ command = "echo {SENTENCE}; ls src docs", description = "look" }}
[[agent.lead.turn.call]]
tool = "Agent"
input = {{ name = "ada", description = "{SENTENCE}", prompt = "Take task 1." }}
[[agent.lead.turn.call]]
tool = "Read"
input = {{ file_path = "src/price.py" }}
[[agent.lead.turn]]
when.tool = "Read"
[[agent.lead.turn.call]]
tool = "Edit"
input = {{ file_path = "src/price.py", old_string = "total + tax", new_string = "total * (1 + tax)" }}
[[agent.ada.turn]]
[[agent.ada.turn.call]]
tool = "SendMessage"
input = {{ to = "lead", message = "{SENTENCE}", summary = "{SENTENCE}" }}
[[agent."*".otherwise]]
say = "All is written."
'''


def too_wide(terminal: Terminal) -> list[str]:
    """Return the lines that tmux had to break. A single word, such as a path, cannot be broken between words."""
    return [line for line in terminal.lines() if cell_width(line) > terminal.columns and " " in line.strip()]


def visit(terminal: Terminal) -> None:
    """Play the script, with its question, and show the screens of commands."""
    terminal.until(lambda text: "allow? [y/n/a]" in text)
    terminal.types("y", "Enter")
    terminal.until(lambda text: "All is written." in text and "1 member" not in text)
    for command, end in (("/help", "Ctrl-D  "), ("/tasks", "#1"), ("/status", "USD"), ("/diff", "1 file")):
        terminal.types(command, "Enter")
        wait_until(lambda command=command, end=end: end in answer(terminal, command), f"the answer of {command}")


def answer(terminal: Terminal, command: str) -> str:
    """Return the lines after a command; empty before it was sent."""
    _, sent, lines = "\n".join(terminal.lines()).rpartition(f"> {command}\n")
    return lines if sent else ""


@pytest.mark.parametrize(
    "columns", [60, pytest.param(80, marks=pytest.mark.slow), 120, pytest.param(200, marks=pytest.mark.slow)]
)
@pytest.mark.slow_after(1)
def test_no_line_is_wider_than_the_window(tmp_path: Path, columns: int):
    stage = Stage(tmp_path / "s")
    args = ("--backend", "in-process", "--model", stage.script("lines", SCRIPT), "Look at all of it.")
    with stage.terminal(PROGRAM, *args, columns=columns, rows=50) as terminal:
        visit(terminal)
        assert too_wide(terminal) == []
        shown = "\n".join(terminal.lines())
        assert SENTENCE.split()[-1] in shown and "def double(value):" in shown


@pytest.mark.slow
@pytest.mark.parametrize(("background", "keyword"), [("15;0", "\x1b[94m"), ("0;15", "\x1b[34m")])
def test_code_has_the_colours_of_a_dark_or_a_light_background(tmp_path: Path, background: str, keyword: str):
    stage = Stage(tmp_path / "s")
    stage.env["COLORFGBG"] = background
    args = ("--backend", "in-process", "--model", stage.script("lines", SCRIPT), "Look at all of it.")
    with stage.terminal(PROGRAM, *args, rows=50) as terminal:
        rows = terminal.until(lambda text: "def double" in text)
        assert any(f"{keyword}def" in row for row in rows), rows
