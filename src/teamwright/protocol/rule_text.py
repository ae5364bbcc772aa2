"""How permission rules stand in one text, in flags, settings and heads of files. Refuses to know what a rule means."""

from __future__ import annotations


def split_rules(text: str) -> list[str]:
    """The rules in `Read, Bash(git diff:*) Grep`: apart by commas or blanks that stand outside parentheses."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")" and depth > 0)
        if depth == 0 and (letter == "," or letter.isspace()):
            found.append("")
        else:
            found[-1] += letter
    return [rule for rule in found if rule]
