"""Lists of permission rules in one text, as in flags, settings and front matter."""

from __future__ import annotations


def split_rules(text: str) -> list[str]:
    """Return the rules in `Read, Bash(git diff:*) Grep`: separated by commas or blanks outside parentheses."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")" and depth > 0)
        if depth == 0 and (letter == "," or letter.isspace()):
            found.append("")
        else:
            found[-1] += letter
    return [rule for rule in found if rule]
