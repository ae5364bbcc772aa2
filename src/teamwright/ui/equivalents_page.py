"""The page docs/reference/coming-from.md, rendered from the table of equivalents by `make generated`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from teamwright.ui.claude_code_equivalents import COMMANDS, FLAGS, KEYS, SUBCOMMANDS, EquivalentRow

_HEAD = """# Coming from Claude Code

The tables list flags, commands and keys of Claude Code and similar programs, and what each is here. They are generated
from data, and each line is tested. *same*: it works alike. *different*: it works with the difference that is named.
*absent*: it does not exist, and the program answers it with the text of the line. Flags may be written in camelCase or
kebab-case. The [compatibility](compatibility.md) page lists files, and the [clients](clients.md) page the JSON stream.
"""


def render_page() -> str:
    """Return the contents of the page."""
    parts = [_HEAD]
    for title, rows in (
        ("Flags", FLAGS),
        ("Commands of the program", SUBCOMMANDS),
        ("Commands in a session", COMMANDS),
        ("Keys", KEYS),
    ):
        parts.append("\n".join((f"## {title}", "", *_table(rows), "")))
    return "\n".join(parts)


def _table(rows: Sequence[EquivalentRow]) -> Iterator[str]:
    yield "| there | | here | difference |"
    yield "|---|---|---|---|"
    for row in rows:
        here = row.here or (row.name if row.relation == "same" else "")
        yield f"| `{row.name}` | {row.relation} | {f'`{here}`' if here else '–'} | {row.about or '–'} |"
