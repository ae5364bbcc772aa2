"""The output of `teamwright permissions`: mode, directories, rules with their files, and how to change them.

Depends on the view of `views/permission_check.py`.
"""

from __future__ import annotations

from teamwright.session.command_text import command_with_home
from teamwright.ui.cli.output import say, say_facts, table_lines
from teamwright.ui.display_text import one_line
from teamwright.views.permission_check import RulesView, RuleView

_WIDE = 1_000


def show_rules(found: RulesView, home: str | None) -> None:
    """Print mode, directories and rules."""
    say_facts([("mode", f"{found.mode} ({found.mode_from})"), ("", found.meaning)])
    say_facts([("directory" if number == 0 else "and", path) for number, path in enumerate(found.directories)])
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
    say_facts(
        [
            ("change", "the mode: --permission-mode MODE, /mode in a session, or"),
            ("", command_with_home("teamwright config set permissions.defaultMode MODE", home)),
            ("", 'rules: --allowed-tools, --disallowed-tools, "always" where a call asks, or'),
            ("", "permissions.allow, permissions.ask and permissions.deny in"),
            ("", found.settings),
            ("", command_with_home("teamwright trust", home) if found.untrusted else ""),
            ("try", command_with_home("teamwright permissions check 'Bash(git push)'", home)),
        ]
    )


def _table(rules: tuple[RuleView, ...]) -> None:
    """Print rules; the path of a file is never cut, even when the line becomes too long."""
    for line in table_lines(
        ("verdict", "rule", "from"), [(one.verdict, one.rule, one.source) for one in rules], width=_WIDE
    ):
        say(line)
