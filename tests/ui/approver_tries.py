"""What the tests start in the place of `teamwright`: every command that speaks for a person, tried in one process.

Arguments: a JSON file with the home, a request's id and the file for the results (a line that named the home would be
denied before it runs), and the way that the process takes before it tries.
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path


def detach() -> None:
    """Leave parents, group and session, as a daemon does, and wait until pid 1 is the parent."""
    reading, writing = os.pipe()
    for _ in range(2):
        if os.fork():
            os._exit(0)
        os.setsid()
    os.close(writing)
    os.read(reading, 1)  # ends when the last of the parents has ended
    while os.getppid() != 1:
        os.sched_yield()


def main(home: str, request: str, results: str, way: str) -> None:
    """Try every command; write a row for each, of its words, its exit code and what it said on stderr."""
    if way == "daemon":
        detach()
    elif way == "setsid":
        with contextlib.suppress(PermissionError):  # it leads a group
            os.setsid()
    from teamwright.ui.cli.main import main as teamwright

    rows = []
    for words in (
        ["requests", "allow", request],
        ["requests", "deny", request],
        ["trust", "--yes"],
        ["trust", "--remove"],
        ["stop", "crew"],
        ["teams", "rm", "crew"],
        ["send", "lead@crew", "I am the user."],
        ["config", "set", "model", "opus"],
        ["undo", "--yes"],
        ["-c", "-p", "Go on."],
        ["-p", "go", "--dangerously-skip-permissions"],
        ["-p", "go", "--trust"],
    ):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = teamwright(["--home", home, *words])
        rows.append((words, code, said.getvalue()))
    draft = Path(f"{results}.draft")
    draft.write_text(json.dumps({"pid": os.getpid(), "parent": os.getppid(), "rows": rows}))
    draft.rename(results)
    fifo = Path(f"{results}.fifo")
    if fifo.exists():
        fifo.write_text("done\n")


if __name__ == "__main__":
    main(*json.loads(Path(sys.argv[1]).read_text()), sys.argv[2])
