"""The programs in awk and sed that only compute and print, and the expressions of find that only test, print and run
listed commands.

The parts that are accepted are listed, as all awks, seds and finds read them; anything else is refused. An invalid awk
program may pass, because awk runs nothing of it. The commands of `-exec` are judged in `file_reads`.
"""

from __future__ import annotations

import itertools
import re
from functools import cache

from msgspec import Struct

from teamwright.shell_lines.command_words import word_set

_SWALLOWED = re.compile(r"[^\x00-\x7f][\\|\[\]{}^~@`_]")
"""In some encodings the last byte of a character takes the next one along, so these signs could vanish."""


def _bracket(delimiter: str) -> str:
    """Return the pattern of a bracket expression in which no sed finds the end of the regular expression."""
    return rf"\[(?:\^?\]|(?!\^?\]))(?:\[:[a-z]+:\]|\\/|[^\[\]\\\n{delimiter}]|\\[^\n\]\[{delimiter}])*\]"


_NEVER = re.compile(r"system|getline|close|fflush|environ|symtab|functab|procinfo|argv|argc", re.IGNORECASE)
"""Names that run, read or write, refused also inside texts."""

_AWK_STATEMENTS = word_set("if else for while do break continue next nextfile exit delete return in BEGIN END")
_AWK_PRINTS = word_set("print printf")
_AWK_CONDITIONS = word_set("if for while")
_AWK_FUNCTIONS = word_set(
    "length substr index split sub gsub gensub match tolower toupper sprintf int sqrt exp log sin cos atan2 rand srand"
    " strftime mktime systime strtonum and or xor lshift rshift compl"
)
_AWK_VARIABLES = word_set(
    "NR NF FS OFS RS ORS FNR FILENAME SUBSEP RSTART RLENGTH CONVFMT OFMT IGNORECASE RT FPAT FIELDWIDTHS"
)
_OWN_VARIABLE = re.compile(r"[A-Z]|[A-Za-z_]*[a-z][A-Za-z0-9_]*|_")
_SLASH_BRACKET = _bracket("/")
_AWK_TOKEN = rf"""(?P<blank>[ \t]+)
    |(?P<comment>\#[^\n\\]*)
    |(?P<newline>\n)
    |(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<text>"(?:[^"\\\n]|\\[^\n])*")
    |(?P<regex>/(?:[^/\\\n\[]|\\[^\n]|{_SLASH_BRACKET})*/)
    |(?P<sign>\+\+|--|\*\*=?|[-+*%^=!<>]=|&&|\|\||!~|[-+*%^=!<>~?:,;$()\[\]{{}}])"""
_BEFORE_REGEX = word_set("( , ~ !~ ! && || ; { }") | {"", "\n"}
"""Tokens after which no awk takes a slash for a division, because no operand has ended."""

_CONTINUING_SIGNS = word_set("? : ! ~ !~ + - * / % ^ ** = += -= *= /= %= ^= **= == != < > <= >= $ ( [")

_CLOSING = {")": "(", "]": "[", "}": "{"}


def only_computes(program: str) -> bool:
    """Return True when the program only computes and prints to its output."""
    if _SWALLOWED.search(program) or _NEVER.search(program):
        return False
    return _AwkReader(program).accepts()


@cache
def _awk_token() -> re.Pattern[str]:
    return re.compile(_AWK_TOKEN, re.VERBOSE)


class _AwkReader:
    """One pass over the tokens of a program.

    `last` is the token before: a sign as written, or `operand`, `text`, `regex`, `keyword` or `condition` (the end of
    the parentheses of `if`, `for` and `while`).
    """

    def __init__(self, program: str) -> None:
        self.program = program
        self.at = 0
        self.last = ""
        self.word = ""
        self.open: list[tuple[str, str]] = []
        self.prints = False
        self.functions: set[str] = set()

    def accepts(self) -> bool:
        """Return True when every token is known and in a place where all awks read it alike."""
        while self.at < len(self.program):
            if not self.step():
                return False
        return not self.open

    def step(self) -> bool:
        if self.program[self.at] == "/" and self.last == "operand":
            self.at += 2 if self.program.startswith("/=", self.at) else 1
            self.last = "/"
            return True
        found = _awk_token().match(self.program, self.at)
        if found is None:
            return False
        self.at = found.end()
        match str(found.lastgroup):
            case "blank" | "comment":
                return True
            case "newline":
                return self.newline()
            case "name":
                return self.name(found[0])
            case "sign":
                return self.sign(found[0])
            case "regex":
                fine = self.last in _BEFORE_REGEX
                self.last = "regex"
                return fine
            case kind:
                self.last = "operand" if kind == "number" else kind
                return True

    def newline(self) -> bool:
        """Accept a line end, which ends a statement. Within parentheses it must follow a sign that cannot end one.

        After any other sign some awks continue the statement, and others refuse the program.
        """
        if self.last in {",", "&&", "||", "{"}:
            return True
        if self.last in _CONTINUING_SIGNS:
            return False
        self.last = "\n"
        self.prints = False
        return not self.open or self.open[-1][0] == "{"

    def name(self, text: str) -> bool:
        calls = self.program[self.at :].lstrip(" \t").startswith("(")
        defines = self.last == "keyword" and self.word == "function"
        self.word = text
        self.last = "keyword"
        if defines:
            return calls and self.define(text)
        if text == "function":
            return not self.open
        if text in _AWK_PRINTS:
            if any(sign != "{" for sign, _ in self.open):
                return False  # `for (print 1 > "file"; …)`: this parenthesis does not make `>` a comparison
            self.prints = True
        if text in _AWK_STATEMENTS or text in _AWK_PRINTS:
            return True
        if text in _AWK_FUNCTIONS:
            self.last = "call" if calls else "text"  # `length` alone is a value, and no slash may follow it
            return calls or text == "length"
        self.last = "call" if calls else "operand"
        if calls:
            return text in self.functions
        return text not in self.functions and (text in _AWK_VARIABLES or _OWN_VARIABLE.fullmatch(text) is not None)

    def define(self, text: str) -> bool:
        """Accept a function definition. The program may call it from here on; no awk has a built-in of that name."""
        self.functions.add(text)
        built_in = _AWK_STATEMENTS | _AWK_PRINTS | _AWK_FUNCTIONS | _AWK_VARIABLES
        return text not in built_in and _OWN_VARIABLE.fullmatch(text) is not None

    def sign(self, text: str) -> bool:
        if text in {">", ">="} and (self.last not in {"operand", "text"} or (self.prints and not self.grouped())):
            return False  # a redirection, not a comparison
        if text in {"(", "[", "{"}:
            condition = text == "(" and self.last == "keyword" and self.word in _AWK_CONDITIONS
            self.open.append((text, "condition" if condition else "operand"))
        self.last = text
        if text in {";", "{", "}"}:
            self.prints = False
        if text in _CLOSING:
            if not self.open or self.open[-1][0] != _CLOSING[text]:
                return False
            _, closes = self.open.pop()
            self.last = text if text == "}" else closes
        return True

    def grouped(self) -> bool:
        """Return True when a parenthesis of the same statement is open, in which `>` compares."""
        for sign, _ in reversed(self.open):
            if sign != "[":
                return sign == "("
        return False


_SED_DELIMITERS = "/|#,:!@%+"
_LABEL_END = r"(?=[ \t]*(?:[;}\n]|$))"
"""After a label some seds take no comment, but the next command."""

_PLAIN_END = r"(?=\s*(?:[;}\n#]|$))"


def _sed_regex(delimiter: str) -> str:
    return rf"(?:[^\[\\\n{delimiter}]|\\[^\n]|{_bracket(delimiter)})*"


@cache
def _sed_arguments(command: str, delimiter: str) -> re.Pattern[str]:
    """Return the pattern of the text after `s` or `y` and its delimiter."""
    sign = re.escape(delimiter)
    text = rf"(?:[^\\\n{sign}]|\\[^\n])*"
    if command == "s":
        return re.compile(rf"{_sed_regex(sign)}{sign}{text}{sign}[gpiI0-9]*{_PLAIN_END}")
    side = rf"(?:[^\[\\\n{sign}]|\\[^\n])*"
    return re.compile(rf"{side}{sign}{side}{sign}{_PLAIN_END}")


@cache
def _sed_beginning() -> re.Pattern[str]:
    """Return the pattern of a command's addresses, and a command without arguments or the sign of another one."""
    address = rf"(?:\d+(?:~\d+)?|\$|/{_sed_regex('/')}/[IM]?)"
    delimiters = re.escape(_SED_DELIMITERS)
    return re.compile(
        rf"[ \t;\n]*(?:{address}(?:[ \t]*,[ \t]*(?:[+~]\d+|{address}))?)?[ \t]*(?:![ \t]*)?"
        rf"(?:(?P<open>\{{)|\}}|(?:[pPdDnNhHgGxlz=]|[qQ](?:[ \t]*\d+)?){_PLAIN_END}"
        rf"|(?:[btT](?:[ \t]*\w+)?|:[ \t]*\w+){_LABEL_END}|(?P<valued>[sy])(?P<delimiter>[{delimiters}]))"
    )


_SED_SEPARATOR = re.compile(r"[ \t]*(?:#[^\n]*)?(?:[;\n][ \t;\n]*(?:#[^\n]*)?)*")


def only_prints(script: str) -> bool:
    """Return True when the script only prints: no command runs, reads or writes a file."""
    if _SWALLOWED.search(script) or "\r" in script:
        return False
    at = _skip_separator(script, 0)
    while at < len(script):
        command = _sed_beginning().match(script, at)
        if command is not None and command["valued"]:
            end = _sed_arguments(command["valued"], command["delimiter"]).match(script, command.end())
        else:
            end = command
        if command is None or end is None:
            return False
        at = _skip_separator(script, end.end())
        if at == end.end() and command["open"] is None and script[at : at + 1] not in {"}", ""}:
            return False
    return True


def _skip_separator(script: str, at: int) -> int:
    found = _SED_SEPARATOR.match(script, at)
    return at if found is None else found.end()


_FIND_OPTIONS = re.compile(r"-[PHE]|-O[0-3]")
_FIND_ALONE = word_set(
    "-print -print0 -ls -prune -quit -true -false -empty -nouser -nogroup -depth -mount -xdev -daystart -noleaf"
    " -readable -writable -executable -ignore_readdir_race -noignore_readdir_race -warn -nowarn"
    " -a -and -o -or -not ! ( ) ,"
)
_FIND_WITH_TEXT = word_set(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -mmin -atime -amin"
    " -ctime -cmin -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -regextype"
    " -fstype -lname -ilname -used -printf"
)
_FIND_WITH_FILE = word_set("-newer -anewer -cnewer -mnewer -samefile")
_FIND_FOLLOWING = word_set("-xtype -readable -writable -executable")
_FIND_NEWER = re.compile(r"-newer[aBcm]([aBcmt])")
_FIND_ARGUMENT = re.compile(r"(?!-[A-Za-z]).*|-[ugoa]*[-+=][rwxXst]*", re.DOTALL)
"""Arguments that no find takes for a predicate; `-perm -u+w` is one."""

MAY_DIFFER = word_set("-o -or ! -not ( ) ,")
"""Signs with which a test of the expression may not apply to all results."""


class FindExpression(Struct, frozen=True):
    """The starting points of find, the `files` with which it compares, and the commands that it `runs`.

    In a command `{}` is a name; two of them are many. `is_plain`: only regular files are found, so that a command which
    gets them follows no link. `follows_links`: a test examines the target of a link.
    """

    starts: tuple[str, ...]
    files: tuple[str, ...] = ()
    runs: tuple[tuple[str, ...], ...] = ()
    is_plain: bool = False
    follows_links: bool = False


def parse_find(args: list[str]) -> FindExpression | None:
    """Parse the arguments of find, or return None for one that does more than test, print and run."""
    options = list(itertools.takewhile(_FIND_OPTIONS.fullmatch, args))
    rest = args[len(options) :]
    starts = list(itertools.takewhile(lambda arg: not arg.startswith(("-", "(", ")", "!", ",")), rest))
    predicates = rest[len(starts) :]
    files: list[str] = []
    runs: list[tuple[str, ...]] = []
    at = 0
    while at < len(predicates):
        predicate = predicates[at]
        if predicate == "-exec":
            end = _exec_end(predicates, at + 1)
            if end is None:
                return None
            runs.append((*predicates[at + 1 : end], *(("{}",) if predicates[end] == "+" else ())))
            at = end + 1
            continue
        argument = predicates[at + 1] if at + 1 < len(predicates) else None
        takes = _argument_kind(predicate, argument)
        if takes is None:
            return None
        if takes == "file" and argument is not None:
            files.append(argument)
        at += 2 if takes else 1
    before = predicates[: predicates.index("-exec")] if runs else []
    plain = ("-type", "f") in itertools.pairwise(before) and not MAY_DIFFER & set(predicates)
    follows = any(
        word in _FIND_FOLLOWING or (word == "-printf" and "Y" in after)
        for word, after in itertools.pairwise((*predicates, ""))
    )
    return FindExpression(tuple(starts) or (".",), tuple(files), tuple(runs), plain, follows)


def _argument_kind(predicate: str, argument: str | None) -> str | None:
    """Return the kind of a predicate's argument: `file`, `text`, none (an empty text); None when it is not accepted."""
    if predicate in _FIND_ALONE:
        return ""
    newer = _FIND_NEWER.fullmatch(predicate)
    known = predicate in _FIND_WITH_TEXT or predicate in _FIND_WITH_FILE or newer is not None
    if not known or argument is None or not _FIND_ARGUMENT.fullmatch(argument):
        return None
    return "file" if predicate in _FIND_WITH_FILE or (newer is not None and newer[1] != "t") else "text"


def _exec_end(words: list[str], start: int) -> int | None:
    """Return the end of the `-exec` command that begins here; a name may only be a whole word."""
    for at in range(start, len(words)):
        if words[at] == ";" or (words[at] == "+" and words[at - 1] == "{}"):
            return at if at > start else None
        if "{}" in words[at] and words[at] != "{}":
            return None
    return None
