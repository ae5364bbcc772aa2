"""`make pictures`: the pictures of docs/pictures, from real runs in tmux with scripted models.

A run of the demo is a film; the others are screens of a session, of a review and of plain text. The temporary directory
is written as `~` in them.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.waits import WAIT_S
from tests.ui.terminal_svg import svg
from tests.ui.tmux_stage import COLUMNS, PROGRAM, Stage

ROOT = Path(__file__).parent.parent.parent
PICTURES = ROOT / "docs" / "pictures"
EXAMPLE = ROOT / "examples" / "at_the_terminal.toml"
FRAME_S, LAST_S = 0.12, 6.0
"""The seconds between two looks at the demo, and for which its last screen is shown."""

SESSION = (PROGRAM, "--backend", "in-process", "--model")
PROMPT = "Which flags does docs/flags.md lack? Add them."
TEAM = '''
[script]
name = "a team at work"
pace_ms = 50
[[agent.lead.turn]]
when.text = "the tests"
say = """
I split the work:

| member | job |
|--------|-----|
| ada | the **parser**, with its tests |
| ben | the command line |

Each runs `pytest` before it reports."""
[[agent.lead.turn.call]]
tool = "TaskCreate"
input = { subject = "Make the tests of the parser pass", description = "All.", activeForm = "Testing the parser" }
[[agent.lead.turn.call]]
tool = "TaskCreate"
input = { subject = "Make the tests of the command line pass", description = "All of them." }
[[agent.lead.turn.call]]
tool = "Agent"
input = { name = "ada", description = "the parser", prompt = "Take task 1." }
[[agent.lead.turn.call]]
tool = "Agent"
input = { name = "ben", description = "the command line", prompt = "Take task 2." }
[[agent.ada.turn]]
[[agent.ada.turn.call]]
tool = "TaskUpdate"
input = { taskId = "1", status = "in_progress", owner = "ada" }
[[agent.ada.turn.call]]
tool = "Bash"
input = { command = "cat gate", description = "wait" }
[[agent.ben.turn]]
[[agent.ben.turn.call]]
tool = "TaskUpdate"
input = { taskId = "2", status = "in_progress", owner = "ben" }
[[agent.ben.turn.call]]
tool = "Bash"
input = { command = "ls docs", description = "look" }
[[agent.ben.turn]]
[[agent.ben.turn.call]]
tool = "Bash"
input = { command = "cat gate", description = "wait" }
[[agent."*".otherwise]]
say = "Both are at work."
'''


EDIT = '''
[script]
name = "an edit"
[[agent.lead.turn]]
[[agent.lead.turn.call]]
tool = "Read"
input = { file_path = "src/price.py" }
[[agent.lead.turn]]
say = "The tax is added as an amount, but callers pass a **rate**. I correct the last two lines."
[[agent.lead.turn.call]]
tool = "Edit"
input = { file_path = "src/price.py", old_string = """item.price for item in items)
    return total + tax""", new_string = """item.price * item.count for item in items)
    return total * (1 + tax)""" }
[[agent."*".otherwise]]
say = "Done."
'''


def question(stage: Stage) -> list[str]:
    """A permission question, with the words that the edit changes."""
    with stage.terminal(*SESSION, stage.script("edit", EDIT), "Why are the prices wrong?", rows=22) as terminal:
        return terminal.until(lambda text: "allow?" in text)


def team(stage: Stage) -> list[str]:
    """Two members at work, with the task list."""
    with stage.terminal(*SESSION, stage.script("team", TEAM), "Make the tests pass.") as terminal:
        terminal.until(lambda text: text.count("Bash cat gate") == 2 and "Both are at work." in text)
        terminal.types("C-t")
        return terminal.until(lambda text: "#2 Make the tests" in text.rpartition("\n>")[2])


def review(stage: Stage) -> list[str]:
    """The work of a team after its run, with the diff of a member."""
    stage.run("--model", f"scripted:{EXAMPLE}", "--dangerously-skip-permissions", "-p", PROMPT)
    with stage.terminal(PROGRAM, "review", rows=36) as terminal:
        terminal.until(lambda text: "review>" in text)
        terminal.types("d writer", "Enter")
        return terminal.until(lambda text: text.count("review>") == 2)


def plain_text(stage: Stage) -> list[str]:
    """The same run as text alone."""
    with stage.terminal(*SESSION[:-1], "--plain", "--model", f"scripted:{EXAMPLE}", PROMPT) as terminal:
        terminal.until(lambda text: "allow?" in text)
        terminal.types("y", "Enter")
        return terminal.until(lambda text: "writer added both" in text)


def demo(stage: Stage) -> list[tuple[list[str], float]]:
    """The screens of the demo, each with the seconds until the next one."""
    frames: list[tuple[list[str], float]] = []
    clone = stage.place / "teamwright"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    with stage.terminal(PROGRAM, "demo", "--repo", str(clone), rows=34) as terminal:
        shown, since = terminal.rows(), time.monotonic()
        deadline = since + 4 * WAIT_S
        while "dead" not in terminal.tmux("display-message", "-p", "#{?pane_dead,dead,}"):
            assert time.monotonic() < deadline
            time.sleep(FRAME_S)
            if (rows := terminal.rows()) != shown:
                frames.append((shown, time.monotonic() - since))
                shown, since = rows, time.monotonic()
        rows = [row for row in terminal.rows() if "Pane is dead" not in row]
    return [*frames[1:], (rows, LAST_S)]


STILLS: dict[str, Callable[[Stage], list[str]]] = {
    "team": team,
    "question": question,
    "review": review,
    "plain": plain_text,
}


def main() -> None:
    """Write all pictures, or those that the arguments name."""
    PICTURES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [*STILLS, "demo"]:
        with tempfile.TemporaryDirectory(prefix="tw-") as place:
            stage = Stage(Path(place))
            frames = demo(stage) if name == "demo" else [(STILLS[name](stage), 1.0)]
        title = f"teamwright: {(STILLS.get(name) or demo).__doc__}".splitlines()[0]
        (PICTURES / f"{name}.svg").write_text(svg(frames, COLUMNS, title))
        print(f"docs/pictures/{name}.svg: {len(frames)} screens")


if __name__ == "__main__":
    main()
