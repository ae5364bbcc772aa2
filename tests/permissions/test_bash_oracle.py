"""The parser against real shells: what a shell runs and writes is among what the parser lists, word by word.

Lines are joined at random. A shell runs each in a scratch directory where no program exists: every program only writes
down the words that it got. ORACLE_LINES and ORACLE_SEED make the runs longer and other ones.
"""

import contextlib
import fnmatch
import os
import random
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from teamwright.shell_lines.ambiguity import is_read_by_zsh_alone
from teamwright.shell_lines.parse import parse_cached, parse_command
from teamwright.shell_lines.parsed_line import FileRedirect, ParsedLine, ShellCommand
from tests.support.programs import require
from tests.support.waits import WAIT_S

LINES = int(os.environ.get("ORACLE_LINES", "1200"))
SEED = int(os.environ.get("ORACLE_SEED", "1"))

PROGRAMS = "ls cat git touch wc echo grep true X rm env xargs find make a b go sh"
NOT_FOUND = {"bash": "command_not_found_handle", "zsh": "command_not_found_handler"}
START = """
HANDLER() { builtin printf '%s\\0' "$@" $'\\1' >> RECORD; }
for name in PROGRAMS; do
  builtin eval "$name() { builtin printf '%s\\\\0' $name \\"\\$@\\" \\$'\\\\1' >> RECORD; }"
done
builtin unset name BASH_ENV
ulimit -t 2
"""
FILES = ("f1", "f2.py", "sub/g.py", ".env", "sub/.hid", "z z")
NOT_LIKE_BASH = {"cat", "more", "-p"}
"""What zsh runs for a redirection without a command, and for `time -p`."""


@dataclass
class Run:
    """What a shell did with a line: the words of each program that ran, and the files that are new."""

    ran: list[tuple[str, ...]] = field(default_factory=list)
    made: set[str] = field(default_factory=set)


class Oracle:
    """A shell in a scratch directory, with nothing on its PATH."""

    def __init__(self, root: Path, shell: str) -> None:
        self.shell = shell
        self.root = Path(os.path.realpath(root)) / "work"
        self.record = self.root.parent / "record"
        start = self.root.parent / ".zshenv"
        text = START.replace("HANDLER", NOT_FOUND[shell]).replace("PROGRAMS", PROGRAMS)
        start.write_text(text.replace("RECORD", str(self.record)))
        self.env = {"PATH": "", "HOME": str(self.root), "PWD": str(self.root), "LC_ALL": "C.UTF-8"}
        self.env |= {"BASH_ENV": str(start)} if shell == "bash" else {"ZDOTDIR": str(start.parent)}
        self.program = shutil.which(shell) or ""
        self.reset()

    def reset(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        for name in FILES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(f"line of {name}\n")
        self.before = self.files()

    def files(self) -> set[str]:
        walked = os.walk(self.root)
        return {os.path.relpath(os.path.join(top, name), self.root) for top, _, names in walked for name in names}

    def run(self, line: str) -> Run:
        """Run the line; a shell that takes longer than 5 seconds is ended, and what ran until then counts."""
        self.record.unlink(missing_ok=True)
        quiet = subprocess.DEVNULL
        shell = subprocess.Popen(
            [self.program, "-c", line],
            cwd=self.root,
            env=self.env,
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            start_new_session=True,
        )
        try:
            shell.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, 9)  # also what it left running beside itself
            shell.wait(WAIT_S)
        found = Run(made=self.files() - self.before)
        if self.record.exists():
            content = self.record.read_bytes().decode("utf-8", "surrogateescape")
            found.ran = [tuple(one.split("\0")[:-1]) for one in content.split("\1\0")[:-1]]
        if self.files() != self.before:
            self.reset()
        return found

    def unknown(self, parsed: ParsedLine, run: Run) -> str:
        """What the shell did that is not listed; empty when all of it is."""
        if any(command.words[:1] == (None,) for command in parsed.commands):
            return ""  # that is listed as a program which may be any
        listed = [command for command in parsed.commands if command.role != "guess"]
        for words in run.ran:
            if self.shell == "zsh" and words[0] in NOT_LIKE_BASH:
                continue
            if not any(lists(command, self._as_in_bash(words)) for command in listed):
                return f"ran {words}"
        writes = [redirect for redirect in parsed.redirects if redirect.writes]
        found = (name for name in run.made if not any(opens(redirect, self.root / name) for redirect in writes))
        return next((f"made {name!r}" for name in found), "")

    def _as_in_bash(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """`a=~/x`: to bash a home, to zsh a name."""
        if self.shell == "bash":
            return words
        return tuple(re.sub(r"^(\w+\+?=)~(?=/|$)", lambda found: f"{found[1]}{self.root}", word) for word in words)


def opens(redirect: FileRedirect, path: Path) -> bool:
    """Whether a listed redirection may open this file."""
    if redirect.target is None or redirect.glob or None in redirect.directories:
        return True
    target = os.path.expanduser(redirect.target)
    return any(os.path.normpath(os.path.join(place, target)) == str(path) for place in redirect.directories)


def lists(command: ShellCommand, got: tuple[str, ...], at: int = 0) -> bool:
    """Whether the words that a program got are those of a listed command."""
    if at == len(command.words):
        return not got
    splits = at < len(command.words) and command.words[at] is None and not command.is_one_word(at)
    least = 0 if splits else 1
    most = len(got) if splits or at in command.globs else 1
    fits = (all(is_word(command, at, one) for one in got[:count]) and count for count in range(least, most + 1))
    return any(lists(command, got[count:], at + 1) for count in fits if count is not False and count <= len(got))


def is_word(command: ShellCommand, at: int, got: str) -> bool:
    word = command.words[at]
    if word is None:
        first, *rest = command.shape(at) or ("",)
        parts = [os.path.expanduser(first) if first else first, *rest]
        expression = "".join(".*" if part is None else re.escape(part) for part in parts)
        return any(re.fullmatch(expression, one, re.DOTALL) for one in (got, "./" + got))
    wanted = os.path.expanduser(word)
    if at in command.globs and fnmatch.fnmatchcase(got, wanted):
        return True
    return got in {wanted, word} or (word.startswith("./~") and got == word[2:])


_WRITTEN = r"""
ls cat git␣push touch␣X wc echo grep true X rm a b go ␣ ␣ ␣ ␣ ; ; & && | || |& ⏎ ⏎ ⇥ \⏎ ␣\⏎ \␣ \⇥
' " ` $( ) ( {␣ ;␣} $(( )) ${x:- } $' $" <( >( [[␣ ␣]] [␣ ␣] <<E⏎ ⏎E⏎ <<'E'⏎ <<-T⏎ <<< << > >> >o9 <f1 2>&1 &>o8 >& <>
{fd}>o7 2> >| &>>o6 # ␣#␣c #c ␣# ;# x#y $# ${#x} if␣true;␣then␣ ;␣fi for␣i␣in␣a␣b;␣do␣ ;␣done case␣a␣in␣a)␣ ;;␣esac ;;&
;& while␣ until␣ do␣ done␣ then␣ else␣ fi esac in time␣ !␣ coproc␣ f()␣{␣ function␣f␣{␣ select␣i␣in␣a;␣do␣ exec␣ eval␣
builtin␣ command␣ trap␣ x=1 x= x+=2 a[0]=1 a=( y=$x $x "$x" ${x} ${x#1} ${x/1/2} $1 $@ "$@" $* $? $$ $! $_ $PWD $HOME
"$PWD/q" ~ ~/q =~ * ? [ab]* *.py .* {a,b} {1..3} {a, ,b} {} @(a) ?(a) !(a) +(a) ! !! !ls ^ % = : , . - -- -n q sub
cd␣sub cd␣.. $[ 1+1 ] $((1+1)) ((x=1)) (( let␣x=1 [[␣a␣=~␣(a)␣]] [[␣a␣==␣b␣]] [␣a␣=␣a␣] \\ \" \' \` \$ \# \; \| \& \( \)
\< \> \{ \* \~ é à ␍ ␌ x\␣y "a␣b" 'a␣b' "\⏎" "'" '"' "" '' export␣A=1 export declare␣x=1 local unset␣x read␣x IFS=,
set␣--␣a␣b shopt␣-s␣extglob alias␣ls=X printf␣-v␣x␣q echo␣$( `ls` $(ls) "$(ls)" <(ls) 1 + x {ls,X} $'\''
>&'$(X)' ''~ a=~/q $x:h $x[1] &! >! =ls
"""
# a sign for each character that would part or hide the pieces
_SIGNS = str.maketrans({"⏎": "\n", "⇥": "\t", "␍": "\r", "␌": "\f", "␣": " "})
PIECES = [piece.translate(_SIGNS) for piece in _WRITTEN.split()]
COMMANDS = ["ls", "cat", "git push", "touch X", "wc", "echo", "grep", "true", "X", "rm a", "a b", "go q"]
WORDS = [
    *("q", "f1", "*.py", "'a b'", '"a b"', "$x", '"$x"', "${x}", "$PWD/q", '"$HOME/q"', "~/q", "{a,b}", "x{1..3}y"),
    *("a\\;b", "#q", "q#", "~", '".e"nv', "[fz]*", "$?", "''", "${x:-q}", '"${x:-q}"', "$((1+1))", "${x%1}"),
]
REDIRECTS = [">o9", ">>o9", "<f1", "2>&1", "&>o8", "2>o7", "<<<q", "> $x", '>"$PWD/o5"', "< f1", "<<E"]
JOINTS = [";", " ; ", "\n", " && ", " || ", " | ", " & ", "; \n", "|", " \\\n&& ", "\n\n", " # c\n", ";#c\n"]
RARER = [
    *("[[ -n $x && a == *.py ]]", "[ -f f1 ]", "((x=1))", "cd sub", "cd ..", "x=$((1+1))", "f() { X; }", "f", "x=q"),
    *("export A=q", "read x", "eval 'a b'", "trap 'X q' EXIT", "unset x", "a=(q b)", "while true; do X; break; done"),
]


class Lines:
    """Random lines: valid ones that are then damaged, and joined pieces."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def line(self) -> str:
        if self.random.random() < 0.3:
            return "".join(self.random.choice(PIECES) for _ in range(self.random.randrange(2, 12)))
        return self.damaged(self.script(self.random.choice([1, 2, 2, 3])))

    def damaged(self, line: str) -> str:
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 3])):
            at, end = sorted(self.random.randrange(len(line) + 1) for _ in range(2))
            line = self.random.choice(
                [
                    line[:at] + self.random.choice(PIECES) + line[at:],
                    line[:at] + self.random.choice(" \t\n\\'\"`$(){}[]<>;&|#!~*?=^%@+-1x\r") + line[at:],
                    line[:at] + line[at + 1 :],
                    line[:at] + line[end:],
                ]
            )
        return line

    def word(self, depth: int) -> str:
        inner = self.random.randrange(30) if depth else 30
        if inner > 3:
            return self.random.choice(WORDS)
        return ("$(%s)", '"$(%s)"', "`%s`", "<(%s)")[inner] % (
            self.command(0) if inner == 2 else self.script(depth - 1)
        )

    def command(self, depth: int) -> str:
        words = [self.random.choice(["x=", "A="]) + self.word(depth)] if self.random.random() < 0.2 else []
        words += [self.random.choice(COMMANDS), *(self.word(depth) for _ in range(self.random.randrange(4)))]
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 2])):
            words.insert(self.random.randrange(len(words) + 1), self.random.choice(REDIRECTS))
        return " ".join(words) + ("\nbody $x $(ls)\nE\n" if "<<E" in words else "")

    def statement(self, depth: int) -> str:
        kind = self.random.randrange(14) if depth else 0
        if kind < 6:
            return self.command(depth)
        inner = self.script(depth - 1)
        forms = [
            f"({inner})",
            f"{{ {inner}; }}",
            f"{{ {inner}\n}}",
            f"if {self.command(0)}; then {inner}; fi",
            f"for x in {self.word(0)} {self.word(0)}; do {inner}; done",
            f"case {self.word(0)} in q|a) {inner};; *) {self.command(0)};; esac",
            f"{self.random.choice(['!', 'time'])} {self.command(depth)}",
        ]
        return self.random.choice([*RARER, f"x={self.word(depth)}"]) if kind == 13 else forms[kind - 6]

    def script(self, depth: int) -> str:
        made = self.statement(depth)
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            made += self.random.choice(JOINTS) + self.statement(depth)
        return made


@pytest.fixture
def oracle(tmp_path, request, monkeypatch):
    require(request.param)
    made = Oracle(tmp_path, request.param)
    monkeypatch.setenv("HOME", str(made.root))
    parse_cached.cache_clear()
    yield made
    parse_cached.cache_clear()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.finding("P1")
@pytest.mark.promise("P7")
@pytest.mark.parametrize(("oracle", "share"), [("bash", 1), ("zsh", 2)], indirect=["oracle"])
def test_whatever_a_shell_runs_or_writes_is_listed(oracle, share):
    lines = Lines(SEED)
    read = ran = 0
    for _ in range(LINES // share):
        line = lines.line()
        parsed = parse_command(line, oracle.root)
        if not parsed.is_valid or "\0" in line or (oracle.shell == "zsh" and is_read_by_zsh_alone(line)):
            continue
        run = oracle.run(line)
        read += 1
        ran += bool(run.ran)
        assert not oracle.unknown(parsed, run), f"seed {SEED}: {line!r}"
    assert read > LINES // share // 5, "too few lines are read to prove anything"
    assert ran > read // 2


@pytest.mark.finding("P1")
@pytest.mark.parametrize("oracle", ["bash"], indirect=True)
def test_the_oracle_notices_what_is_not_listed(oracle):
    assert oracle.unknown(parse_command("ls q", oracle.root), oracle.run("ls q; touch X"))
    assert oracle.unknown(parse_command("ls q", oracle.root), oracle.run("ls r"))
    assert oracle.unknown(parse_command("ls q > o1", oracle.root), oracle.run("ls q > o2"))
    assert not oracle.unknown(parse_command("ls q > o1", oracle.root), oracle.run("ls q > o1"))
