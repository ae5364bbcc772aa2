"""The programs in awk that only compute and print.

The parts that are accepted are listed, as all awks read them; anything else is refused. An invalid program may pass,
because awk runs nothing of it.
"""

from __future__ import annotations

import re
from functools import cache

from teamwright.shell_lines.command_words import word_set

SWALLOWED = re.compile(r"[^\x00-\x7f][\\|\[\]{}^~@`_]")
"""In some encodings the last byte of a character takes the next one along, so these signs could vanish."""


def bracket_pattern(delimiter: str) -> str:
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
_SLASH_BRACKET = bracket_pattern("/")
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
    if SWALLOWED.search(program) or _NEVER.search(program):
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
