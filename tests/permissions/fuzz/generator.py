"""Lines, made at random from a seed: common lines, options of programs, shell syntax, and mutations of allowed lines.

Depends on `fragments` and the table of option names. Does not know what a line does or whether it is allowed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

from teamwright.shell_lines.command_words import word_set
from tests.permissions.fuzz import fragments, hidden, lines

OPTIONS = Path(__file__).parent / "options.txt"
MOST = 400
"""Characters of a line."""
_POOL = 3_000
_TOKEN = re.compile(r"\s+|\w+|--?[\w-]+|.", re.DOTALL)
_SIGNS = re.compile(r"[#'\"\\$<>;&|(){}`\n]")
_JOINS = (" | ", " | ", " && ", "; ", "\n", " || ", " & ", "; ", " |& ", "&&", ";", "|", " \\\n&& ", " # ", "\n\n")
_FRAMES = (
    *("({})", "{{ {}; }}", 'echo "$({})"', "x=$({}); echo $x", "if {}; then {}; fi", "for f in src/*.py; do {}; done"),
    *(
        "time {}",
        "! {}",
        "bash -c '{}'",
        "timeout 1 {}",
        "command {}",
        "env {}",
        "{} 2>/dev/null",
        "{} 2>&1",
        "cd src && {}",
        "cd sub && {}",
    ),
    *(
        "cat <({})",
        "while false; do {}; done",
        "case x in x) {};; esac",
        "{} > /dev/null",
        "x=1 {}",
        "LC_ALL=C {}",
        "`{}`",
    ),
    *("cat <<EOF\n$({})\nEOF", "[[ -n $({}) ]]", "nice {}", "xargs {}", "{} < a.py", "{} | xargs", "f() {{ {}; }}; f"),
    *(
        "find . -maxdepth 1 -exec {} \\;",
        "{} | while read x; do echo $x; done",
        "cd sub/.. && {}",
        "cd .; {}",
        "eval '{}'",
    ),
    *("for x in a.py b.py; do {}; done", "export A=1; {}", "{} <<< x", 'bash -c "{}"', "set -e; {}", "cd emb && {}"),
    *(
        "trap '{}' EXIT",
        "{} || touch_marker",
        "false && {}",
        "exec {}",
        "cd vendor && {}",
        "x='{}'; $x",
        "xargs -I% {}",
    ),
)
_TEXT_FIRST = word_set("grep egrep fgrep rg zgrep look expr tr printf seq sleep date")
_COMMAND_FIRST = word_set("xargs env nice timeout stdbuf nohup time command exec eval")
_CHANGERS = ("cat", "head", "cp", "mv", "tee", "touch", "dd", "grep", "sort", "ln", "rm", "echo")


def option_rows() -> dict[str, tuple[str, ...]]:
    """The option names of each program. A name that ends in `=` takes a value; in `[=]` it may."""
    rows = (line.partition(":") for line in OPTIONS.read_text(encoding="utf-8").splitlines())
    found = {name: tuple(words.split()) for name, _, words in rows}
    return found | {"awk": found["gawk"]}


class Generator:
    """Makes lines; `keep` gives it the lines that were allowed, so that it makes more like them."""

    def __init__(self, seed: str, favour: Sequence[str] = ()) -> None:
        self._random = random.Random(seed)
        self._rows = option_rows()
        self._programs = tuple(self._rows)
        self._favourites = tuple(name for name in favour if name in self._rows) or self._programs
        self._turns: list[tuple[str, str]] = []
        self._pools: dict[str, list[str]] = {}
        common, changing = _listed(lines.LINES), _listed(lines.CHANGING)
        self._lines = {"editing": [*common, *changing * 4], "bypass": _listed(lines.BYPASSING), "": common}

    def keep(self, line: str, configuration: str) -> None:
        """Remember a line that was allowed and did no harm."""
        pool = self._pools.setdefault(configuration, [])
        if len(pool) < _POOL:
            pool.append(line)
        else:
            pool[self._random.randrange(_POOL)] = line

    def line(self, configuration: str, scarce: bool = False) -> str:
        """Another line. `scarce`: few lines were allowed, so it is made from one that was."""
        ways = (self._common, self._joined, self._mutant, self._hidden, self._program, self._one_option, self._scripted)
        weights = (4, 4, 12, 6, 0, 0, 0, 0) if scarce else (3, 3, 6, 8, 4, 8, 6, 3)
        made = self._random.choices((*ways, self._syntax), weights)[0](configuration)
        if self._random.random() < 0.15:
            made = self._mutated(made, configuration)
        return made[:MOST].replace("\0", "")

    def program_line(self, name: str, option: str) -> str:
        """A line of one program with one option, attached in one of its ways."""
        return " ".join(self._with_operands(name, [name, *self._with_value(option)]))

    def _known(self, configuration: str) -> str:
        pool = self._pools.get(configuration)
        if pool and self._random.random() < 0.75:
            return self._random.choice(pool)
        return self._random.choice(self._lines.get(configuration, self._lines[""]))

    def _common(self, configuration: str) -> str:
        words = self._known(configuration).split(" ")
        at = self._random.randrange(len(words))
        words[at] = self._operand() if self._random.random() < 0.8 else self._random.choice(fragments.SHELL)
        return " ".join(words)

    def _program(self, configuration: str) -> str:
        pick = self._random
        name = pick.choice(self._favourites if pick.random() < 0.8 else self._programs)
        if configuration == "bypass" and pick.random() < 0.9:
            name = pick.choice(_CHANGERS)
        words = [name]
        for _ in range(pick.choice((0, 0, 1, 1, 1, 2, 2, 3, 4))):
            words += self._with_value(pick.choice(self._rows[name])) if self._rows[name] else []
        return " ".join(self._with_operands(name, words))

    def _one_option(self, configuration: str) -> str:
        """One option of one program beside an operand that it must not read: each option in turn, in random order."""
        pick = self._random
        if configuration == "bypass":
            return self._program(configuration)
        if not self._turns:
            self._turns = [(name, option) for name in self._favourites for option in self._rows[name] or ("--",)]
            pick.shuffle(self._turns)
        name, option = self._turns.pop()
        kind = pick.choice((fragments.OUTSIDE, fragments.OUTSIDE, fragments.DENIED, fragments.INSIDE, fragments.PLACES))
        words = [*self._own(name), *self._with_value(option), pick.choice(kind)]
        if pick.random() < 0.3:
            pick.shuffle(words)
        if pick.random() < 0.15:
            words.insert(pick.randrange(len(words)), "--")
        return " ".join([name, *words])

    def _scripted(self, configuration: str) -> str:
        """A program that is a small language, with its scripts in all places and forms."""
        pick = self._random
        name = pick.choice(("sed", "sed", "awk", "awk", "jq", "find", "find", "xargs"))
        words: list[str] = []
        for _ in range(pick.choice((1, 1, 2, 2, 3))):
            own = " ".join(self._own(name))
            words.append(
                pick.choice((own, own, f"-e {own}", f"-e{own}", f"-ne {own}", f"--expression={own}", f"-n {own}"))
            )
        if pick.random() < 0.4:
            words += self._with_value(pick.choice(self._rows[name]))
        words += [self._operand() for _ in range(pick.choice((0, 1, 1, 2)))]
        if pick.random() < 0.25:
            words.insert(pick.randrange(len(words)), "--")
        if pick.random() < 0.3:
            pick.shuffle(words)
        return " ".join([name, *words])

    def _hidden(self, configuration: str) -> str:
        """A line in which a command is hidden, with one or two characters changed."""
        pick = self._random
        if pick.random() < 0.7:
            line = pick.choice(hidden.HIDDEN)
        else:
            frame = pick.choice(
                ("{} # {}", "{} '{}'", '{} "; {}"', "{} <<'E'\n{}\nE", "{}\n# {}", "{} \\# {}", "{};# {}")
            )
            line = frame.format(self._known(configuration), "; touch MARK")
        if configuration == "bypass":
            line = line.replace("touch MARK", "touch_marker")
        elif pick.random() < 0.3:
            line = line.replace("touch MARK", pick.choice(hidden.MARKING))
        for _ in range(pick.choice((1, 1, 1, 2, 3))):
            edges = [found.start() + pick.randrange(2) for found in _SIGNS.finditer(line)]
            at = pick.choice(edges) if edges and pick.random() < 0.7 else pick.randrange(len(line) + 1)
            piece = pick.choice(hidden.ESCAPES if pick.random() < 0.5 else hidden.SPECIAL)
            line = line[:at] + piece + line[at + (pick.random() < 0.3) :]
        return line

    def _with_operands(self, name: str, words: list[str]) -> list[str]:
        pick = self._random
        count = pick.choice((0, 1, 1, 1, 2, 2, 3))
        own = self._own(name) if pick.random() < 0.85 else []
        operands = [*own, *(self._operand() for _ in range(count))]
        if pick.random() < 0.12:
            operands.insert(pick.randrange(len(operands) + 1), "--")
        at = pick.randrange(len(operands) + 1) if pick.random() < 0.3 else 0
        return [words[0], *operands[:at], *words[1:], *operands[at:]]

    def _own(self, name: str) -> list[str]:
        """What this program takes before its files."""
        pick, base = self._random, name.split(" ")[0]
        scripts = {"sed": fragments.SED, "jq": fragments.JQ}
        if base in scripts or base.endswith("awk"):
            return [_quoted(pick.choice(scripts.get(base, fragments.AWK)))]
        if base == "find":
            return [self._operand(), *(pick.choice(fragments.FIND_ACTIONS) for _ in range(pick.randrange(3)))]
        if base in _COMMAND_FIRST:
            return [pick.choice(fragments.COMMANDS)]
        if base in _TEXT_FIRST:
            values = ("0", "1") if base in {"sleep", "seq"} else (*fragments.TEXTS, "one", ".", "-e one")
            return [pick.choice(values) for _ in range(2 if base == "tr" else 1)]
        if base == "bash":
            return ["-c", f"'{pick.choice(fragments.COMMANDS)}'"]
        return [pick.choice(fragments.TEXTS)] if base == "git" and pick.random() < 0.5 else []

    def _with_value(self, option: str) -> list[str]:
        """An option with a value as it is documented, or in another way."""
        pick = self._random
        optional = option.endswith("[=]")
        name = option.removesuffix("[=]").removesuffix("=")
        takes = optional or option.endswith("=")
        if takes != (pick.random() < 0.85):
            return [self._varied(name)]
        value = self._value()
        if name.startswith("--"):
            name = self._varied(name)
            return [f"{name}={value}"] if optional or pick.random() < 0.6 else [name, value]
        return [f"{name}{value}"] if optional or pick.random() < 0.4 else [name, value]

    def _varied(self, name: str) -> str:
        """Now and then an abbreviation of a long option, or a cluster of short ones."""
        pick = self._random
        if name.startswith("--") and len(name) > 4 and pick.random() < 0.1:
            return name[: pick.randrange(4, len(name))]
        if len(name) == 2 and pick.random() < 0.15:
            return name + pick.choice("abcdefghiklmnopqrstuvwxz0AEHLRST")
        return name

    def _value(self) -> str:
        pick = self._random
        kinds = (fragments.NUMBERS, fragments.TEXTS, fragments.PLACES, fragments.COMMANDS, ())
        kind = pick.choices(kinds, (5, 6, 2, 2, 5))[0]
        if not kind:
            return self._operand()
        value = pick.choice(kind)
        return f"'{value}'" if kind is fragments.COMMANDS and "'" not in value else value

    def _operand(self) -> str:
        kinds = (fragments.INSIDE, fragments.OUTSIDE, fragments.DENIED, fragments.TEXTS, fragments.PLACES)
        return self._random.choice(self._random.choices(kinds, (10, 5, 3, 2, 1))[0])

    def _syntax(self, configuration: str) -> str:
        """Shell syntax joined at random, with a command that leaves a mark somewhere in it."""
        pick = self._random
        pieces = [pick.choice(fragments.SHELL) for _ in range(pick.randrange(1, 9))]
        if pick.random() < 0.5:
            pieces.insert(0, pick.choice(("echo ", "ls ", "cat ", "echo", "ls", "true", "cat a.py", "x=1")))
        if pick.random() < 0.6:
            pieces.insert(pick.randrange(len(pieces) + 1), pick.choice(("touch MARK", "touch_marker", "> MARK")))
        return "".join(pieces)

    def _joined(self, configuration: str) -> str:
        """Two lines in one, one in a frame, or one with a variable."""
        pick = self._random
        one, other = self._known(configuration), self._known(configuration)
        if pick.random() < 0.15:
            assignment = pick.choice(hidden.ASSIGNMENTS)
            use = pick.choice((one, f"echo ${assignment.partition('=')[0]}", f"cat ${assignment.partition('=')[0]}"))
            return (
                pick.choice(("", "", "", "export ", "declare ", "env ")) + assignment + pick.choice((" ", "; ")) + use
            )
        if pick.random() < 0.5:
            return one + pick.choice(_JOINS) + other
        return pick.choice(_FRAMES).format(one, other)

    def _mutant(self, configuration: str) -> str:
        return self._mutated(self._known(configuration), configuration)

    def _mutated(self, line: str, configuration: str) -> str:
        tokens = _TOKEN.findall(line)
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            step = self._random.choice((_cut, self._insert, self._splice, self._write, self._replace_byte))
            tokens = step(tokens, self._random.randrange(len(tokens) + 1), configuration) or tokens
        return "".join(tokens)

    def _insert(self, tokens: list[str], at: int, configuration: str) -> list[str]:
        pick = self._random
        if pick.random() < 0.5:
            return [*tokens[:at], pick.choice(fragments.SHELL), *tokens[at:]]
        name = tokens[0] if tokens and tokens[0] in self._rows else pick.choice(self._programs)
        option = pick.choice(self._rows[name] or ("-x",))
        return [*tokens[:at], " ", *" ".join(self._with_value(option)), " ", *tokens[at:]]

    def _splice(self, tokens: list[str], at: int, configuration: str) -> list[str]:
        other = _TOKEN.findall(self._known(configuration))
        return tokens[:at] + other[self._random.randrange(len(other)) :]

    def _write(self, tokens: list[str], at: int, configuration: str) -> list[str]:
        """Another operand, in the place of a token or beside it."""
        if self._random.random() < 0.5:
            return [*tokens[:at], self._operand(), *tokens[at + 1 :]]
        return [*tokens[:at], " ", self._operand(), " ", *tokens[at:]]

    def _replace_byte(self, tokens: list[str], at: int, configuration: str) -> list[str]:
        text = "".join(tokens)
        place = self._random.randrange(len(text) + 1)
        byte = self._random.choice("\\'\"`$#;&|<>(){}[]*?~!= \t\n-a1")
        return list(text[:place] + byte + text[place + self._random.randrange(2) :])


def _cut(tokens: list[str], at: int, configuration: str) -> list[str]:
    return tokens[:at] + tokens[at + 1 :]


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else f'"{text}"'


def _listed(text: str) -> list[str]:
    """The lines of a list; one that opens a here-document goes on to its end."""
    found: list[str] = []
    rest = iter(text.strip().splitlines())
    for line in rest:
        whole = line
        while "<<" in line and "<<<" not in line and not whole.endswith("\nEOF"):
            whole += "\n" + next(rest)
        found.append(whole)
    return found
