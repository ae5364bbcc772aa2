"""The session of the demo: its options and permission rules, which allow only reading.

Git commands of this form run no program of the repository, fetch nothing and take no lock, with any
configuration. So they are safe before the repository is trusted. A test compares the rules with demo.toml.
"""

from __future__ import annotations

from importlib import resources

from msgspec.structs import asdict, replace

from teamwright.protocol.budget import Budget
from teamwright.sandbox.policy import UNBOUNDED, NetworkAccess
from teamwright.saved.repository import Repository
from teamwright.session.options import Options
from teamwright.ui.demo.demo_summary import CAP_USD
from teamwright.ui.display_text import cut, one_line

GIT_COMMAND = (
    "git --no-pager --no-optional-locks -c core.fsmonitor=false -c core.hooksPath=/dev/null -c protocol.allow=never"
    " -c protocol.ext.allow=never -c fetch.prune=refused -c core.quotePath=false -c color.ui=false"
    " -c grep.column=false"
)
"""The start of each git command of the script."""

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
