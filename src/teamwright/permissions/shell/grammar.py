"""The statements of a shell line: simple and compound commands, their operators and redirections.

Depends on `word_reader`. A line that bash would refuse, or that shells read differently, raises UnreadableLine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from teamwright.permissions.shell.scanner import NOT_BASH, UnreadableLine
from teamwright.permissions.shell.simple_commands import SimpleCommandReader
from teamwright.permissions.shell.syntax_tree import (
    AndOr,
    BranchCommand,
    CalculateCommand,
    FixedText,
    ForLoop,
    FunctionDefinition,
    Pipeline,
    RedirectedCommand,
    Redirection,
    Statement,
    StatementSequence,
    Subshell,
    TestCommand,
    WhileLoop,
    Word,
)
from teamwright.permissions.word_lists import word_set

_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|while|until|for|do|done|case|esac|select|function|time|in|\{|\}|!|\[\[|\]\])"
    r"(?=[ \t\n;&|()<>]|$)"
)
_CLOSES = word_set("then elif else fi do done esac } ]] in")
_TIMED = re.compile(r"time[ \t]+(?:-p[ \t]+)?(?:--[ \t]+)?")
_CALLED = re.compile(r"[ \t]*\([ \t]*\)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:+-]*")
_EXPRESSION = re.compile(r"[A-Za-z0-9_.,:/@%+*?^$|()\[\]{}!=~#-]+")
_TEST_SIGN = re.compile(r"(?:&&|\|\||[<>()]|!(?=[ \t]))")


class LineGrammar(SimpleCommandReader):
    """A parser that reads a line statement by statement."""

    def parse_line(self) -> StatementSequence:
        """Parse all statements of the line."""
        found = self.statements()
        if self.at != self.end or self.waiting:
            raise UnreadableLine(NOT_BASH)
        return found

    def statements(self) -> StatementSequence:
        """Parse statements up to a bracket or a reserved word that closes the enclosing one."""
        items: list[Statement] = []
        aside: list[int] = []
        while True:
            self.newlines()
            if not self._begins():
                return StatementSequence(tuple(items), frozenset(aside))
            items.append(self._and_or())
            self.blanks()
            if self.is_next("&"):
                aside.append(len(items) - 1)
                self.at += 1
            elif self.is_next(";") and not self.is_next(";;") and not self.is_next(";&"):
                self.at += 1
            elif not self.is_next("\n") and not self.is_next("#"):
                return StatementSequence(tuple(items), frozenset(aside))

    def _begins(self) -> bool:
        """Return True when a statement may begin here."""
        return bool(self.char()) and self.char() not in ");" and self._reserved() not in _CLOSES

    def _at_least_one(self) -> StatementSequence:
        """Parse one or more statements."""
        found = self.statements()
        if not found.items:
            raise UnreadableLine(NOT_BASH)
        return found

    def _reserved(self) -> str:
        found = _RESERVED.match(self.text, self.at, self.end)
        return found[0] if found is not None else ""

    def _keyword(self, word: str) -> None:
        """Skip this reserved word, which must come next."""
        if self._reserved() != word:
            raise UnreadableLine(NOT_BASH)
        self.at += len(word)

    def _and_or(self) -> Statement:
        items = [self._pipeline()]
        signs: list[bool] = []
        while True:
            self.blanks()
            both = self.is_next("&&")
            if not both and not self.is_next("||"):
                return AndOr(tuple(items), tuple(signs)) if signs else items[0]
            self.at += 2
            self.newlines()
            signs.append(both)
            items.append(self._pipeline())

    def _pipeline(self) -> Statement:
        timed = _TIMED.match(self.text, self.at, self.end)
        if timed is not None:
            self._timed(timed)
        if self._reserved() == "!":
            self.at += 1
            self.blanks()
        found = [self._command()]
        while True:
            self.blanks()
            if not self.is_next("|") or self.is_next("||"):
                return found[0] if len(found) == 1 else Pipeline(tuple(found))
            self.at += 2 if self.is_next("|&") else 1
            self.newlines()
            found.append(self._command())

    def _timed(self, timed: re.Match[str]) -> None:
        """Skip `time`, which the second parser takes for the command."""
        self.marks.commands.add(self.at)
        self.at = timed.end()
        if self._reserved() or not self._begins() or self.char() in "-(\n&|\\":
            raise UnreadableLine("it has a part that is not looked into")
        self.timed = True

    def _command(self) -> Statement:
        word = self._reserved()
        read = self._COMPOUNDS.get("(" if self.is_next("(") else word)
        if read is None:
            if word:
                raise UnreadableLine(NOT_BASH)
            return self.simple()
        self.descend()
        body = read(self)
        self.ascend()
        found: list[Redirection] = []
        self.blanks()
        while not isinstance(body, FunctionDefinition) and self.redirection(found):
            self.blanks()
        return RedirectedCommand(body, tuple(found)) if found else body

    def _named_function(self) -> FunctionDefinition:
        self._keyword("function")
        self.blanks()
        found = _FUNCTION_NAME.match(self.text, self.at, self.end)
        if found is None:
            raise UnreadableLine(NOT_BASH)
        self.at = found.end()
        called = _CALLED.match(self.text, self.at, self.end)
        self.at = called.end() if called is not None else self.at
        return self.function_definition(found[0])

    def function_definition(self, name: str) -> FunctionDefinition:
        """Parse the function of this name, whose body comes next."""
        self.newlines()
        if self._reserved() not in {"{", "if", "while", "until", "for", "case", "[["} and not self.is_next("("):
            raise UnreadableLine(NOT_BASH)
        return FunctionDefinition(name, self._command())

    def _group(self) -> StatementSequence:
        self._keyword("{")
        body = self._at_least_one()
        self._keyword("}")
        return body

    def _subshell(self) -> Statement:
        if self.is_next("(("):
            return CalculateCommand(self.calculation("(("))
        self.at += 1
        body = self._at_least_one()
        self.expect(")")
        return Subshell(body)

    def _if(self) -> BranchCommand:
        always: list[StatementSequence] = []
        bodies: list[StatementSequence] = []
        word = "if"
        while word in {"if", "elif"}:
            self._keyword(word)
            always.append(self._at_least_one())
            self._keyword("then")
            bodies.append(self._at_least_one())
            word = self._reserved()
        if word == "else":
            self._keyword("else")
            bodies.append(self._at_least_one())
        self._keyword("fi")
        return BranchCommand(tuple(always), tuple(bodies))

    def _while(self) -> WhileLoop:
        self._keyword(self._reserved())
        test = self._at_least_one()
        return WhileLoop(test, self._done())

    def _done(self) -> StatementSequence:
        self._keyword("do")
        body = self._at_least_one()
        self._keyword("done")
        return body

    def _for(self) -> ForLoop:
        picks = self._reserved() == "select"
        self._keyword(self._reserved())
        self.blanks()
        if self.is_next("(("):
            head = self.calculation("((", semicolons=True)
            self._ends_head()
            return ForLoop("", None, self._done(), head=head)
        found = _NAME.match(self.text, self.at, self.end)
        if found is None:
            raise UnreadableLine(NOT_BASH)
        self.at = found.end()
        self.blanks()
        words: list[Word] | None = None
        if self._reserved() == "in":
            self._keyword("in")
            words = []
            self.blanks()
            while (word := self.word()) is not None:
                words.append(word)
                self.blanks()
        self._ends_head()
        return ForLoop(found[0], None if words is None else tuple(words), self._done(), picks)

    def _ends_head(self) -> None:
        """Parse the end of the head of a loop."""
        self.blanks()
        if self.is_next(";"):
            self.at += 1
        elif not self.is_next("\n") and self._reserved() != "do":
            raise UnreadableLine(NOT_BASH)
        self.newlines()

    def _case(self) -> BranchCommand:
        self.check_counted("it has a case in a substitution")
        self._keyword("case")
        self.blanks()
        word = self.word()
        if word is None or self.is_next("("):
            raise UnreadableLine(NOT_BASH)
        words = [word]
        bodies: list[StatementSequence] = []
        self.newlines()
        self._keyword("in")
        self.newlines()
        while self._reserved() != "esac":
            words += self._patterns()
            bodies.append(self.statements())
            end = next((sign for sign in (";;&", ";;", ";&") if self.is_next(sign)), "")
            self.at += len(end)
            self.newlines()
            if not end:
                break
        self._keyword("esac")
        return BranchCommand((), tuple(bodies), tuple(words))

    def _patterns(self) -> list[Word]:
        if self.is_next("("):
            self.at += 1
            self.blanks()
        found: list[Word] = []
        while True:
            word = self.word()
            if word is None or self.is_next("("):
                raise UnreadableLine(NOT_BASH)
            found.append(word)
            self.blanks()
            if self.is_next(")"):
                self.at += 1
                return found
            self.expect("|")
            self.blanks()

    def _test(self) -> TestCommand:
        self.marks.commands.add(self.at)
        self._keyword("[[")
        items: list[Word | str] = []
        while True:
            self.blanks()
            if self._reserved() == "]]":
                break
            sign = _TEST_SIGN.match(self.text, self.at, self.end)
            if sign is not None:
                if self.text.startswith("(", sign.end()) and sign[0] in {"<", ">"}:
                    raise UnreadableLine("it has a test that is no plain one")
                self.at = sign.end()
                items.append(sign[0])
                continue
            word = self._expression() if items and _is_sign(items[-1], "=~") else self.word()
            if word is None or self.is_next("("):
                raise UnreadableLine("it has a test that is no plain one")
            items.append(word)
        self._keyword("]]")
        if not items:
            raise UnreadableLine(NOT_BASH)
        return TestCommand(tuple(items))

    def _expression(self) -> Word | None:
        """Parse the regular expression after `=~`: a plain one, or any word."""
        found = _EXPRESSION.match(self.text, self.at, self.end)
        ended = found is not None and (found.end() == self.end or self.text[found.end()] in " \t")
        if found is None or not ended or not set(found[0]) & set("()|"):
            return self.word()
        depth = 0
        for char in found[0]:
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth < 0 or (char == "|" and not depth) or (char == "$" and "$(" in found[0]):
                raise UnreadableLine("it has a test that is no plain one")
        if depth or "$" in found[0].replace("$)", "").rstrip("$"):
            raise UnreadableLine("it has a test that is no plain one")
        start, self.at = self.at, found.end()
        return Word((FixedText(found[0], quoted=True),), start)

    _COMPOUNDS: ClassVar[dict[str, Callable[[LineGrammar], Statement]]] = {
        "(": _subshell,
        "{": _group,
        "[[": _test,
        "if": _if,
        "while": _while,
        "until": _while,
        "for": _for,
        "select": _for,
        "case": _case,
        "function": _named_function,
    }


def _is_sign(item: Word | str, sign: str) -> bool:
    return isinstance(item, Word) and item.literal == sign
