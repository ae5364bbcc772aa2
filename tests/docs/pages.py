"""The documents as tests read them: fenced blocks, what a page says about each, and the commands in them.

A block says by its language what it is: `sh` is to be pasted, `console` is a transcript (lines that begin with `$ `
are commands), `text` is neither: a synopsis, a message, a picture. What else a test must know stands above the block,
in a comment that a reader of the page does not see:

    <!-- while a team works -->        where the commands are given (`RULE_DESTINATIONS` in `places.py`)
    <!-- exit 4 -->                    how they end, if not with 0
    <!-- not run: REASON -->           why they cannot be run here
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")} | set(ROOT.glob("docs/**/*.md"))
)
_BLOCK = re.compile(r"((?:^<!--.*?-->\n)*)^( *)```(\S*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`((?:teamwright|make)(?: [^`]*)?)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    remarks: tuple[str, ...]
    first: bool
    """Whether none stands before it on its page."""

    @property
    def id(self) -> str:
        """`docs/tutorials/team-in-ci.md:12`: how a test is called."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def remark(self, begins: str) -> str | None:
        """What stands behind this word in a comment above the block."""
        return next((r.removeprefix(begins).strip() for r in self.remarks if r.startswith(begins)), None)

    @property
    def not_run(self) -> str | None:
        """The reason why its commands are not run."""
        return self.remark("not run:")

    @property
    def exit_code(self) -> int:
        """What its last command ends with."""
        return int(self.remark("exit ") or 0)

    @property
    def place(self) -> str:
        """Where its commands are given."""
        return next((r for r in self.remarks if not r.startswith(("not run:", "exit ", "step", "save ", "prints"))), "")

    @property
    def is_synopsis(self) -> bool:
        """The first block of a command's page: how it is called, with words for what may stand there."""
        return self.page.parent.name == "cli" and self.first

    @property
    def commands(self) -> list[str]:
        """Its commands, one or more lines each, as a shell reads them; a script that begins with `#!` is one."""
        lines = self.text.splitlines()
        bare = not self.language and not re.match(r"(teamwright|make) ", self.text)
        if self.is_synopsis or bare or self.language not in ("console", "sh", ""):
            return []
        if self.text.startswith("#!"):
            return [self.text]
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        return list(_whole(lines))


def _whole(lines: list[str]) -> Iterator[str]:
    """Lines, joined where the shell would ask for more."""
    held = ""
    for line in lines:
        held = f"{held}\n{line}" if held else line
        open_end = held.rstrip().endswith(("\\", "|", "&&"))
        if held.strip() and not open_end and _complete(held):
            yield held
            held = ""
    assert not held.strip(), f"the shell waits for more: {held}"


def _complete(text: str) -> bool:
    if not re.search(r"\b(while|for|if|case)\b|<<|['\"({]", text):
        return True
    return subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0


def blocks(*languages: str) -> list[Block]:
    """All blocks of all pages, or those in these languages."""
    return [one for one in _all_blocks() if not languages or one.language in languages]


@cache
def _all_blocks() -> list[Block]:
    found: list[Block] = []
    for page in PAGES:
        text = page.read_text()
        for match in _BLOCK.finditer(text):
            remarks = tuple(re.findall(r"<!-- *(.*?) *-->", match[1]))
            line = text[: match.start(2)].count("\n") + 1
            body = re.sub(rf"^{match[2]}", "", match[4], flags=re.MULTILINE)
            found.append(Block(page, line, match[3], body, remarks, first="```" not in text[: match.start()]))
    return found


def inline_commands() -> list[tuple[str, str]]:
    """Commands inside of sentences and tables, each with its page."""
    found: list[tuple[str, str]] = []
    for page in PAGES:
        text = _BLOCK.sub("", page.read_text())
        found += [
            (str(page.relative_to(ROOT)), " ".join(m[1].replace("\\|", "|").split())) for m in _INLINE.finditer(text)
        ]
    return list(dict.fromkeys(found))
