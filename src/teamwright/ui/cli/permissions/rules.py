"""The page of `teamwright permissions`: mode, directories, rules with their files, and the ways to change them.

Depends on the view of `app/looking/rules.py`; reads nothing itself.
"""

from __future__ import annotations

from teamwright.app.looking.rules import RulesView, RuleView
from teamwright.app.typed import typed
from teamwright.ui.cli.output import facts, one_line, say, table

_WIDE = 1_000


def show_rules(found: RulesView, home: str | None) -> None:
    """Print the page."""
    facts([("mode", f"{found.mode} ({found.mode_from})"), ("", found.meaning)])
    facts([("directory" if number == 0 else "and", path) for number, path in enumerate(found.directories)])
    say()
    if found.rules:
        _table(found.rules)
    else:
        say("No rule: the mode alone decides.")
    if found.untrusted:
        say()
        say("without effect until this repository is trusted:")
        _table(found.untrusted)
    for warning in found.warnings:
        say(f"warning: {one_line(warning)}")
    say()
    facts(
        [
            ("change", "the mode: --permission-mode MODE, /mode in a session, or"),
            ("", typed("teamwright config set permissions.defaultMode MODE", home)),
            ("", 'rules: --allowed-tools, --disallowed-tools, "always" where a call asks, or'),
            ("", "permissions.allow, permissions.ask and permissions.deny in"),
            ("", found.settings),
            ("", typed("teamwright trust", home) if found.untrusted else ""),
            ("try", typed("teamwright permissions check 'Bash(git push)'", home)),
        ]
    )


def _table(rules: tuple[RuleView, ...]) -> None:
    """Print rules; the path of a file is never cut, however wide the line becomes."""
    for line in table(("verdict", "rule", "from"), [(one.verdict, one.rule, one.source) for one in rules], width=_WIDE):
        say(line)
