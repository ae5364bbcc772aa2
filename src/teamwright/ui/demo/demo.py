"""The session of the demo, which may only read, and the texts around it: how real it is, the result, what to type next.

Lines have at most 80 columns.
"""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from teamwright.protocol.usage import Budget
from teamwright.sandbox.policy import UNBOUNDED, NetworkAccess
from teamwright.saved.run_repository import Repository
from teamwright.session.options import Options
from teamwright.session.result import Result
from teamwright.ui.demo.demo_screen import WIDTH
from teamwright.ui.display_text import clean, cut, one_line
from teamwright.views.run_report import CallCollector, cited


class DemoOptions(Struct, frozen=True):
    """The values of the flags. `directory` is the directory in which the repository is looked up.

    `ask` is wait or deny; `within` is the time limit of the request in seconds.
    """

    directory: Path
    pace: int | None = None
    report: Path | None = None
    model: str | None = None
    yes: bool = False
    output_format: str = "text"
    home: str | None = None
    kill: bool = False
    ask: str | None = None
    within: float | None = None
    backend: str | None = None
    panes: bool = False


SCRIPTED_PROMPT = "Show what a team can find out about this repository. The team is called {team}."

LIVE_PROMPT = """\
Find out with a team of three which files a newcomer should read first in this repository, and why.

Make a team called {team} with the teammates surveyor, historian and tester, and these tasks:
1. Files and languages: text files, lines, languages.
2. Files changed most: source files by changes in the last year (counted back from HEAD), and how large they are.
3. Tests and untested changes: test files and cases; how often source changed without a test.
4. Tests of the five files changed most (after 2 and 3): commits, how many without a test, which test changes with it.
5. TODO markers: TODO and FIXME markers, the oldest first (after 1).
6. What to read first: join 4 and 5 yourself.

Read only: use git, grep, awk and the reading tools. Run nothing of the repository. Name or rate no person.
End with a report of at most 25 lines of 80 columns: for each number say which command gave it.
"""

CAP_USD = 1.00
"""The cap for a demo with a real model, in USD."""

KILL_LINE = "The whole program is killed with SIGKILL three times, and resumed."
"""The description of --kill."""

ASK_LINE = "A sub-agent will need a call that is not allowed: it waits {0:g} s for a yes."

ASK_DENY_LINE = "A sub-agent will need a call that is not allowed: the policy denies it."
"""The description of --ask."""

GIT_COMMAND = (
    "git --no-pager --no-optional-locks -c core.fsmonitor=false -c core.hooksPath=/dev/null -c protocol.allow=never"
    " -c protocol.ext.allow=never -c fetch.prune=refused -c core.quotePath=false -c color.ui=false"
    " -c grep.column=false"
)
"""The start of each git command of the script.

Commands of this form run no program of the repository, fetch nothing and take no lock, with any configuration. So they
are safe before the repository is trusted.
"""

_READING_COMMANDS = (
    "log -1 --no-show-signature",
    "log -z -n 5000 --no-show-signature --no-ext-diff --no-textconv",
    "rev-parse --is-shallow-repository",
    "ls-tree -r -z --full-tree",
    "grep -zIn",
    "grep -zInwF",
    "--literal-pathspecs grep -zIc",
    "blame --line-porcelain --no-textconv --ignore-revs-file=",
)

READING_RULES = tuple(f"Bash({GIT_COMMAND} {words} *)" for words in _READING_COMMANDS)
"""Allow rules for a session that plays demo.toml; its other commands (awk, tr, printf) are known to be read-only."""

_NO_NETWORK = asdict(replace(UNBOUNDED, network=NetworkAccess.DENY))
"""The sandbox gives commands no network, and opens none for them."""

_DENIED_TOOLS = ("Write", "Edit", "NotebookEdit", "WebFetch", "WebSearch")


def demo_options(
    repository: Repository,
    *,
    home: str | None,
    pace_ms: int,
    model: str | None = None,
    session: str | None = None,
    resumes: bool = False,
) -> Options:
    """Return the options for a session over this repository: scripted unless a model is named, new or resumed by id."""
    script = resources.files("teamwright.ui.demo") / "demo.toml"
    return Options(
        cwd=repository.top,
        home=home,
        model=model or f"scripted:{script}",
        permission_mode="dontAsk",
        allowed_tools=() if model else READING_RULES,
        disallowed_tools=_DENIED_TOOLS,
        only_allowed=True,
        sandbox_bounds=_NO_NETWORK,
        hooks=False,
        teams=True,
        budget=Budget(usd=CAP_USD if model else None),
        given={"repo": cut(one_line(repository.name), 50), "team": demo_team_name(repository)},
        pace_s=pace_ms / 1000,
        session_id=None if resumes else session,
        resume=session if resumes else None,
    )


def demo_team_name(repository: Repository) -> str:
    """Return a valid team name for any name of a directory."""
    return f"demo-{''.join(char if char.isprintable() else '-' for char in repository.name)[:80]}"


def head_lines(options: DemoOptions, repository: Repository, pace_ms: int, *, sample: bool) -> list[str]:
    """Return the title. The first line says if a script or a model answers."""
    if options.model:
        kind = f"the model {options.model}, for at most {CAP_USD:.2f} USD"
    else:
        kind = f"scripted model, no key, no network, replies {f'paced {pace_ms} ms' if pace_ms else 'at once'}"
    lines = [f"teamwright demo: {kind}"]
    if sample:
        lines.append(f"not in a git repository: {one_line(str(options.directory))}")
        lines.append("so here is the sample project that comes with teamwright:")
    lines += [
        f"{one_line(repository.name)} @ {repository.commit or '(no commit yet)'}",
        "real: git, shell, task list, inboxes, permissions. Nothing is written here.",
    ]
    return [*(cut(line, WIDTH) for line in lines), ""]


def tail_lines(result: Result, calls: CallCollector, changed: list[str] | None) -> list[str]:
    """Return the report, its cost, and the state of the tree."""
    created = [call for call in calls.calls.values() if call.tool == "TaskCreate" and call.outcome == "done"]
    numbers = (
        count_text(len(result.members), "agent"),
        count_text(len(created), "task"),
        f"{count_text(result.messages_sent, 'message')}, {result.messages_seen} seen",
        count_text(len(calls.calls), "tool call"),
        f"{result.duration_ms / 1000:.1f} s",
    )
    return ["", *clean(result.text).splitlines(), "", " · ".join(numbers), *tree_lines(changed)]


_MAX_PATHS = 5
"""The number of changed paths that are listed."""


def tree_lines(changed: list[str] | None) -> list[str]:
    """Return the result of the comparison of all files before and after, with the first changed paths."""
    if changed is None:
        return ["the tree is too large to be compared with what it was"]
    if not changed:
        return ["0 bytes written here: every file, .git included, is what it was"]
    return [
        f"{count_text(len(changed), 'file')} changed during the run, by another program: this run can only read",
        *(f"  {cut(one_line(path), WIDTH - 2)}" for path in changed[:_MAX_PATHS]),
    ]


def next_lines(options: DemoOptions, team: str, result: Result, calls: CallCollector) -> list[str]:
    """Return the commands to type next: show a receipt, run again, run with a real model."""
    receipts = cited(result.text) or [call.call for call in calls.calls.values() if call.tool == "Bash"]
    has_team = any(call.tool == "TeamCreate" and call.outcome == "done" for call in calls.calls.values())
    log = f"teamwright log {shlex.quote(team) if has_team else result.session_id[:8]}"
    lines = [f"receipt   {log} --call {receipts[min(1, len(receipts) - 1)]}" if receipts else f"log       {log}"]
    if options.report is not None:
        lines.append(f"report    {options.report}")
    if not options.model:
        lines.append("again     teamwright demo --pace 0")
        lines.append(f"yours     teamwright demo --model sonnet   (a real model, capped at {CAP_USD:.2f} USD)")
    return [clean(line) for line in lines]


def count_text(number: int, word: str) -> str:
    """Return a count with its noun: `1 task`, `2 tasks`."""
    return f"{number:,} {word if number == 1 else word + 's'}"
