"""What a skill or command would run or allow by itself, in a line for whoever is asked to trust it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from teamwright.skills.recipe import allowed_tools, parse_head
from teamwright.skills.template import shell_lines


def effects(texts: Iterable[str]) -> str:
    """What these texts run when they are called, whole, and which calls they allow; empty when neither."""
    runs: list[str] = []
    allows: list[str] = []
    for text in texts:
        head = parse_head(text)
        runs += shell_lines(head.body)
        allows += allowed_tools(head)
    parts = [f"runs: {' ; '.join(' '.join(line.split()) for line in runs)}"] if runs else []
    parts += [f"allows: {', '.join(dict.fromkeys(allows))}"] if allows else []
    return "; ".join(parts)
