"""The table of verdicts in docs/reference/permissions.md, from the policy itself.

`python -m tests.permissions.verdict_page` writes it, as a part of `make generated`; a test compares it.
"""

import tempfile
from pathlib import Path

from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Mode
from teamwright.protocol.runtime_tags import split_rules
from teamwright.ui.cli.reference_pages import replace_part
from teamwright.views.permission_check import parse_call
from tests.permissions.scratch import ScratchRepository

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "permissions.md"
MODES = [mode for mode in Mode if mode is not Mode.BUBBLE]
SIGNS = {"+": "allow", "~": "allow", "?": "ask", "-": "deny"}
ROWS = (
    ("Read(src/main.py)", ""),
    ("Read(../outside/secret)", ""),
    ("Read(../state/trust.json)", ""),
    ("Edit(src/main.py)", ""),
    ("Write(../outside/new.py)", ""),
    ("Edit(.git/hooks/pre-commit)", ""),
    ("Bash(git status)", ""),
    ("Bash(cat a.py | sort | uniq -c)", ""),
    ("Bash(mkdir src/new)", ""),
    ("Bash(rm a.py)", ""),
    ("Bash(echo x > a.py)", ""),
    ("Bash(npm test)", ""),
    ("Bash(git commit -m x)", ""),
    ("Bash($X)", ""),
    ("WebFetch(https://example.org/)", ""),
    ("Agent(Explore)", ""),
    ("SendMessage", ""),
    ("mcp__db__query", ""),
    ("Bash(npm test)", "+Bash(npm test:*)"),
    ("Bash(npm test && rm a.py)", "+Bash(npm test:*)"),
    ("Edit(src/main.py)", "+Edit(src/**)"),
    ("Bash(git commit -m x)", "+Bash(git commit:*)"),
    ("Edit(src/main.py)", "?Edit(src/**)"),
    ("Edit(src/main.py)", "-Edit(src/**)"),
    ("Bash(true && git push)", "-Bash(git push:*)"),
    ("Bash(git $X)", "-Bash(git push:*)"),
    ("Bash(git push)", "+Bash -Bash(git push:*)"),
)
"""Calls, each with its rules: `+` allows, `?` asks, `-` denies."""


def policy(scratch: ScratchRepository, rules: str, mode: Mode) -> Policy:
    """Return the policy of rules with signs. A rule with `~` allows as one of a repository."""
    found: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    for rule in split_rules(rules) if rules not in {"-", ""} else ():
        found[SIGNS[rule[0]]].append(rule[1:])
    return scratch.policy(mode, by_user="~" not in rules, **found)


def render_verdicts(scratch: ScratchRepository) -> str:
    """Return the table: a row for each call with its rules, a column for each mode."""
    lines = [f"| call | rules | {' | '.join(f'`{mode}`' for mode in MODES)} |", "|---" * (len(MODES) + 2) + "|"]
    for call, rules in ROWS:
        tool, access = parse_call(call, scratch.project)
        verdicts = [str(policy(scratch, rules, mode).decide(tool, access).verdict) for mode in MODES]
        shown = f"`{rules}`" if rules else ""
        lines.append(f"| `{call}` | {shown} | {' | '.join(verdicts)} |".replace(call, call.replace("|", "\\|")))
    return "\n".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        table = render_verdicts(ScratchRepository(Path(directory)))
    PAGE.write_text(replace_part(PAGE.read_text("utf-8"), table), "utf-8")
