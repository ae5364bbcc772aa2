"""The statements of a shell line: simple and compound commands, their operators and redirections.

A line that bash would refuse, or that shells read differently, raises UnreadableLine. Words have a reader of their own
(`word_reader`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.line_cursor import (
    META,
    NOT_BASH,
    RARE_COMMENT,
    RARE_DOCUMENT,
    RARE_QUOTES,
    HereDocument,
    LineCursor,
    SyntaxMarks,
    UnreadableLine,
)
from teamwright.shell_lines.step_limit import spend_steps
from teamwright.shell_lines.syntax_tree import (
    AndOr,
    Assignment,
    BranchCommand,
    CalculateCommand,
    FixedText,
    ForLoop,
    FunctionDefinition,
    NegatedCommand,
    Pipeline,
    RedirectedCommand,
    Redirection,
    SimpleCommand,
    Statement,
    StatementSequence,
    Subshell,
    TestCommand,
    WhileLoop,
    Word,
    WordPart,
)
from teamwright.shell_lines.word_reader import WordReader

_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|while|until|for|do|done|case|esac|select|function|time|in|\{|\}|!|\[\[|\]\])"
    r"(?=[ \t\n;&|()<>]|$)"
)
_CLOSES = word_set("then elif else fi do done esac } ]] in")
_TIMED = re.compile(r"time[ \t]+(?:-p[ \t]+)?(?:--[ \t]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPRESSION = re.compile(r"[A-Za-z0-9_.,:/@%+*?^$|()\[\]{}!=~#-]+")
_TEST_SIGN = re.compile(r"(?:&&|\|\||[<>()]|!(?=[ \t]))")


class LineGrammar:
    """A parser that reads a line statement by statement."""

    def __init__(self, text: str) -> None:
        self.scanner = LineCursor(text)
        self.words = WordReader(self.scanner, self.statements)
        self.documents = HereDocumentReader(self.scanner, self.words)
        self.commands = SimpleCommandReader(self.scanner, self.words, self.documents)

    @property
    def marks(self) -> SyntaxMarks:
        """The positions that a second parser must confirm."""
        return self.scanner.marks

    def parse_line(self) -> StatementSequence:
        """Parse all statements of the line."""
        found = self.statements()
        if self.scanner.at != self.scanner.end or self.scanner.waiting:
            raise UnreadableLine(NOT_BASH)
        return found

    def statements(self) -> StatementSequence:
        """Parse statements up to a bracket or a reserved word that closes the enclosing one."""
        scanner = self.scanner
        items: list[Statement] = []
        aside: list[int] = []
        while True:
            self.documents.newlines()
            if not self._begins():
                return StatementSequence(tuple(items), frozenset(aside))
            items.append(self._and_or())
            scanner.blanks()
            if scanner.is_next("&"):
                aside.append(len(items) - 1)
                scanner.at += 1
            elif scanner.is_next(";") and not scanner.is_next(";;") and not scanner.is_next(";&"):
                scanner.at += 1
            elif not scanner.is_next("\n") and not scanner.is_next("#"):
                return StatementSequence(tuple(items), frozenset(aside))

    def _begins(self) -> bool:
        """Return True when a statement may begin here."""
        return bool(self.scanner.char()) and self.scanner.char() not in ");" and self._reserved() not in _CLOSES

    def _at_least_one(self) -> StatementSequence:
        """Parse one or more statements."""
        found = self.statements()
        if not found.items:
            raise UnreadableLine(NOT_BASH)
        return found

    def _reserved(self) -> str:
        found = _RESERVED.match(self.scanner.text, self.scanner.at, self.scanner.end)
        return found[0] if found is not None else ""

    def _keyword(self, word: str) -> None:
        """Skip this reserved word, which must come next."""
        if self._reserved() != word:
            raise UnreadableLine(NOT_BASH)
        self.scanner.at += len(word)

    def _and_or(self) -> Statement:
        scanner = self.scanner
        items = [self._pipeline()]
        signs: list[bool] = []
        while True:
            scanner.blanks()
            both = scanner.is_next("&&")
            if not both and not scanner.is_next("||"):
                return AndOr(tuple(items), tuple(signs)) if signs else items[0]
            scanner.at += 2
            self.documents.newlines()
            signs.append(both)
            items.append(self._pipeline())

    def _pipeline(self) -> Statement:
        scanner = self.scanner
        timed = _TIMED.match(scanner.text, scanner.at, scanner.end)
        if timed is not None:
            # The second parser takes `time` for the command.
            self.scanner.marks.commands.add(self.scanner.at)
            self.scanner.at = timed.end()
            if self._reserved() or not self._begins() or self.scanner.char() in "-(\n&|\\":
                raise UnreadableLine("it has a part that is not looked into")
            self.commands.timed = True
        if self._reserved() == "!":
            scanner.at += 1
            scanner.blanks()
            return NegatedCommand(self._joined_by_pipes())
        return self._joined_by_pipes()

    def _joined_by_pipes(self) -> Statement:
        scanner = self.scanner
        found = [self._command()]
        while True:
            scanner.blanks()
            if not scanner.is_next("|") or scanner.is_next("||"):
                return found[0] if len(found) == 1 else Pipeline(tuple(found))
            scanner.at += 2 if scanner.is_next("|&") else 1
            self.documents.newlines()
            found.append(self._command())

    def _command(self) -> Statement:
        word = self._reserved()
        read = self._COMPOUNDS.get("(" if self.scanner.is_next("(") else word)
        if read is None:
            if word:
                raise UnreadableLine(NOT_BASH)
            found = self.commands.simple()
            return self._function_definition(found) if isinstance(found, str) else found
        self.scanner.descend()
        body = read(self)
        self.scanner.ascend()
        redirections: list[Redirection] = []
        self.scanner.blanks()
        while not isinstance(body, FunctionDefinition) and self.commands.redirection(redirections):
            self.scanner.blanks()
        return RedirectedCommand(body, tuple(redirections)) if redirections else body

    def _named_function(self) -> FunctionDefinition:
        self._keyword("function")
        self.scanner.blanks()
        found = _FUNCTION_NAME.match(self.scanner.text, self.scanner.at, self.scanner.end)
        if found is None:
            raise UnreadableLine(NOT_BASH)
        self.scanner.at = found.end()
        called = _CALLED.match(self.scanner.text, self.scanner.at, self.scanner.end)
        self.scanner.at = called.end() if called is not None else self.scanner.at
        return self._function_definition(found[0])

    def _function_definition(self, name: str) -> FunctionDefinition:
        """Parse the function of this name, whose body comes next."""
        self.documents.newlines()
        if self._reserved() not in {"{", "if", "while", "until", "for", "case", "[["} and not self.scanner.is_next("("):
            raise UnreadableLine(NOT_BASH)
        return FunctionDefinition(name, self._command())

    def _group(self) -> StatementSequence:
        self._keyword("{")
        body = self._at_least_one()
        self._keyword("}")
        return body

    def _subshell(self) -> Statement:
        if self.scanner.is_next("(("):
            return CalculateCommand(self.words.calculation("(("))
        self.scanner.at += 1
        body = self._at_least_one()
        self.scanner.expect(")")
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
        scanner = self.scanner
        picks = self._reserved() == "select"
        self._keyword(self._reserved())
        scanner.blanks()
        if scanner.is_next("(("):
            head = self.words.calculation("((", semicolons=True)
            self._ends_head()
            return ForLoop("", None, self._done(), head=head)
        found = _NAME.match(scanner.text, scanner.at, scanner.end)
        if found is None:
            raise UnreadableLine(NOT_BASH)
        scanner.at = found.end()
        scanner.blanks()
        words: list[Word] | None = None
        if self._reserved() == "in":
            self._keyword("in")
            words = []
            scanner.blanks()
            while (word := self.words.word()) is not None:
                words.append(word)
                scanner.blanks()
        self._ends_head()
        return ForLoop(found[0], None if words is None else tuple(words), self._done(), picks)

    def _ends_head(self) -> None:
        """Parse the end of the head of a loop."""
        self.scanner.blanks()
        if self.scanner.is_next(";"):
            self.scanner.at += 1
        elif not self.scanner.is_next("\n") and self._reserved() != "do":
            raise UnreadableLine(NOT_BASH)
        self.documents.newlines()

    def _case(self) -> BranchCommand:
        scanner = self.scanner
        scanner.check_counted("it has a case in a substitution")
        self._keyword("case")
        scanner.blanks()
        word = self.words.word()
        if word is None or scanner.is_next("("):
            raise UnreadableLine(NOT_BASH)
        words = [word]
        bodies: list[StatementSequence] = []
        self.documents.newlines()
        self._keyword("in")
        self.documents.newlines()
        while self._reserved() != "esac":
            words += self._patterns()
            bodies.append(self.statements())
            end = next((sign for sign in (";;&", ";;", ";&") if scanner.is_next(sign)), "")
            scanner.at += len(end)
            self.documents.newlines()
            if not end:
                break
        self._keyword("esac")
        return BranchCommand((), tuple(bodies), tuple(words))

    def _patterns(self) -> list[Word]:
        scanner = self.scanner
        if scanner.is_next("("):
            scanner.at += 1
            scanner.blanks()
        found: list[Word] = []
        while True:
            word = self.words.word()
            if word is None or scanner.is_next("("):
                raise UnreadableLine(NOT_BASH)
            found.append(word)
            scanner.blanks()
            if scanner.is_next(")"):
                scanner.at += 1
                return found
            scanner.expect("|")
            scanner.blanks()

    def _test(self) -> TestCommand:
        scanner = self.scanner
        scanner.marks.commands.add(scanner.at)
        self._keyword("[[")
        items: list[Word | str] = []
        while True:
            scanner.blanks()
            if self._reserved() == "]]":
                break
            sign = _TEST_SIGN.match(scanner.text, scanner.at, scanner.end)
            if sign is not None:
                if scanner.text.startswith("(", sign.end()) and sign[0] in {"<", ">"}:
                    raise UnreadableLine("it has a test that is no plain one")
                scanner.at = sign.end()
                items.append(sign[0])
                continue
            word = self._expression() if items and _is_sign(items[-1], "=~") else self.words.word()
            if word is None or scanner.is_next("("):
                raise UnreadableLine("it has a test that is no plain one")
            items.append(word)
        self._keyword("]]")
        if not items:
            raise UnreadableLine(NOT_BASH)
        return TestCommand(tuple(items))

    def _expression(self) -> Word | None:
        """Parse the regular expression after `=~`: a plain one, or any word."""
        scanner = self.scanner
        found = _EXPRESSION.match(scanner.text, scanner.at, scanner.end)
        ended = found is not None and (found.end() == scanner.end or scanner.text[found.end()] in " \t")
        if found is None or not ended or not set(found[0]) & set("()|"):
            return self.words.word()
        depth = 0
        for char in found[0]:
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth < 0 or (char == "|" and not depth) or (char == "$" and "$(" in found[0]):
                raise UnreadableLine("it has a test that is no plain one")
        if depth or "$" in found[0].replace("$)", "").rstrip("$"):
            raise UnreadableLine("it has a test that is no plain one")
        start, scanner.at = scanner.at, found.end()
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


DECLARING_BUILTINS = word_set("declare typeset export readonly local")
"""Builtins whose words may be assignments."""

_OF_COMMAND = 40
"""The steps to parse one command."""

_REDIRECTION = re.compile(r"([0-9]*)(<<<|<<-|<<|<>|<&|>>|>\||>&|<|>)|(&>>|&>)")
_BEFORE_REDIRECTION = re.compile(r"[ \t]*[<>]")
_DUPLICATED = re.compile(r"[A-Za-z0-9_./-]+")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[)?")
_ELEMENT = re.compile(r"\[([^\s\"'`\\;&|<>()\[\]$]*)\]")
_CALLED = re.compile(r"[ \t]*\([ \t]*\)")
_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:+-]*")


class SimpleCommandReader:
    """Reads simple commands: assignments, words and redirections."""

    def __init__(self, scanner: LineCursor, words: WordReader, documents: HereDocumentReader) -> None:
        self.scanner = scanner
        self.words = words
        self.documents = documents
        self.timed = False
        """True when the next command is marked already, by `time` before it."""

    def redirection(self, found: list[Redirection]) -> bool:
        """Parse one redirection, if one begins here."""
        scanner = self.scanner
        match = _REDIRECTION.match(scanner.text, scanner.at, scanner.end)
        if match is None or (match[2] in {"<", ">"} and scanner.text.startswith("(", match.end()) and not match[1]):
            return False
        if len(match[1] or "") > 1:
            raise UnreadableLine("it redirects in a rare way")  # zsh takes the digits for a word
        start, scanner.at = scanner.at, match.end()
        scanner.marks.redirections.add(start)
        sign = match[2] or match[3]
        scanner.blanks()
        empty_redirection = Redirection(sign, Word(()))
        target = self.documents.delimiter(sign, empty_redirection.body) if sign in {"<<", "<<-"} else self.words.word()
        if target is None or scanner.is_next("("):
            raise UnreadableLine(NOT_BASH)
        if sign in {">&", "<&"} and not _DUPLICATED.fullmatch(target.literal or ""):
            raise UnreadableLine("it redirects in a rare way")  # bash expands this word twice
        found.append(Redirection(sign, target, empty_redirection.body))
        return True

    def simple(self) -> SimpleCommand | str:
        """Parse a simple command, or the head of a function: return the name of `name() …`."""
        spend_steps(_OF_COMMAND)
        scanner = self.scanner
        start = scanner.at
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirections: list[Redirection] = []
        declares = False
        marked = self.timed
        self.timed = False
        while True:
            scanner.blanks()
            if self.redirection(redirections):
                continue
            assigned = self._assignment(words) if not words or declares else None
            if assigned is not None:
                assignments.append(assigned)
                continue
            word = self.words.word()
            if word is None:
                break
            if scanner.is_next("(") or (not words and _CALLED.match(scanner.text, scanner.at, scanner.end)):
                return self._function_name(word, start, bool(words or assignments or redirections))
            # Forms that sh reads differently: after `&>file` another command; `{name}>file` stores a descriptor.
            descriptor = (word.literal or "").startswith("{") and _BEFORE_REDIRECTION.match(
                self.scanner.text, self.scanner.at, self.scanner.end
            )
            if descriptor or any(one.sign in {"&>", "&>>"} for one in redirections):
                raise UnreadableLine("it redirects in a rare way")
            if not words and scanner.text[word.start] == "{":
                raise UnreadableLine("it has braces where a command begins")  # in zsh they open a group
            if not words:
                scanner.marks.commands |= set() if marked else {word.start}
                declares = word.literal in DECLARING_BUILTINS
            words.append(word)
        if not (words or assignments or redirections):
            raise UnreadableLine(NOT_BASH)
        return SimpleCommand(tuple(assignments), tuple(words), tuple(redirections))

    def _assignment(self, words: list[Word]) -> Assignment | None:
        """Parse `name=value` before a command, or an array in a declaration."""
        scanner = self.scanner
        found = _ASSIGNED.match(scanner.text, scanner.at, scanner.end)
        if found is None:
            return None
        after = found.end()
        element = None
        if found[2]:
            subscript = _ELEMENT.match(scanner.text, after - 1, scanner.end)
            if subscript is None:
                raise UnreadableLine("it sets a part of a variable in a rare way")
            after = subscript.end()
            element = Word((FixedText(subscript[1]),), found.end())
        adds = scanner.text.startswith("+", after, scanner.end)
        after += adds
        if not scanner.text.startswith("=", after, scanner.end):
            return None
        if words and not scanner.text.startswith("(", after + 1, scanner.end):
            return None
        scanner.at = after + 1
        if scanner.is_next("("):
            return Assignment(found[1], items=self._array(), adds=adds, element=element)
        value = self.words.word(inside=True) or Word((), scanner.at)
        if scanner.is_next("("):
            raise UnreadableLine(RARE_QUOTES)
        return Assignment(found[1], value, adds=adds, element=element)

    def _array(self) -> tuple[Word, ...]:
        scanner = self.scanner
        scanner.at += 1
        items: list[Word] = []
        self.documents.newlines()
        while not scanner.is_next(")"):
            word = self.words.word()
            # `[…]=x` evaluates the text in the brackets
            if word is None or scanner.waiting or scanner.text[word.start] == "[":
                raise UnreadableLine("it sets an array in a rare way")
            items.append(word)
            self.documents.newlines()
        scanner.at += 1
        if scanner.char() and scanner.char() not in " \t\n;&|)":
            raise UnreadableLine("it sets an array in a rare way")
        return tuple(items)

    def _function_name(self, word: Word, start: int, more: bool) -> str:
        """Parse the brackets after the name of a function."""
        called = _CALLED.match(self.scanner.text, self.scanner.at, self.scanner.end)
        name = word.literal or ""
        if called is None or more or word.start != start or not _FUNCTION_NAME.fullmatch(name):
            raise UnreadableLine(RARE_QUOTES)
        self.scanner.at = called.end()
        return name


_DELIMITER = re.compile(
    r"(?P<plain>[A-Za-z0-9_.-]+)|'(?P<one>[\w. -]+)'|\"(?P<two>[\w. -]+)\"|\\(?P<escaped>[A-Za-z0-9_.-]+)"
)
_ODD_ESCAPE = re.compile(r"[^\\](\\\\)*\\\n|^(\\\\)*\\\n")
_COUNTED = re.compile(r"[()'\"`\\]")


class HereDocumentReader:
    """Reads line ends with their comments. The here-documents of a line begin after its end."""

    def __init__(self, scanner: LineCursor, words: WordReader) -> None:
        self.scanner = scanner
        self.words = words

    def newlines(self) -> None:
        """Skip blanks, comments and line ends; here-documents are read at the end of their line."""
        scanner = self.scanner
        while True:
            scanner.blanks()
            if scanner.is_next("#"):
                if scanner.substituted:
                    raise UnreadableLine(RARE_COMMENT)
                scanner.marks.comments.add(scanner.at)
                end = scanner.text.find("\n", scanner.at, scanner.end)
                scanner.at = scanner.end if end < 0 else end
            if not scanner.is_next("\n"):
                return
            scanner.at += 1
            self._documents()

    def delimiter(self, sign: str, body: list[WordPart]) -> Word:
        """Parse the word after `<<`; the document is read at the end of the line."""
        scanner = self.scanner
        found = _DELIMITER.match(scanner.text, scanner.at, scanner.end)
        if found is None or (found.end() < scanner.end and scanner.text[found.end()] not in META):
            raise UnreadableLine(RARE_DOCUMENT)
        name = found["plain"] or found["one"] or found["two"] or found["escaped"]
        scanner.waiting.append(HereDocument(name, found["plain"] is None, sign == "<<-", body))
        start, scanner.at = scanner.at, found.end()
        return Word((FixedText(name, quoted=True),), start)

    def _documents(self) -> None:
        scanner = self.scanner
        for document in scanner.waiting:
            scanner.documents_read += 1
            start = scanner.at
            while True:
                stop = scanner.text.find("\n", scanner.at, scanner.end)
                stop = scanner.end if stop < 0 else stop
                line = scanner.text[scanner.at : stop]
                line = line.lstrip("\t") if document.tabs else line
                if line == document.name:
                    break
                if stop == scanner.end or (scanner.substituted and line.startswith(document.name)):
                    raise UnreadableLine(RARE_DOCUMENT)
                scanner.at = stop + 1
            if _COUNTED.search(scanner.text, start, scanner.at):
                scanner.check_counted("it has a here-document that old shells end elsewhere")
            if document.literal:
                document.body.append(FixedText(scanner.text[start : scanner.at], quoted=True))
            else:
                self._fill(document, start)
            scanner.at = min(stop + 1, scanner.end)
        scanner.waiting.clear()

    def _fill(self, document: HereDocument, start: int) -> None:
        """Read the expansions between here and the start of a here-document."""
        scanner = self.scanner
        end, around = scanner.at, scanner.end
        if _ODD_ESCAPE.search(scanner.text, start, end):
            raise UnreadableLine("it has a here-document with lines that are joined")
        waiting, scanner.waiting = scanner.waiting, []
        scanner.at = start
        scanner.end = end
        document.body += self.words.document_parts()
        if scanner.at != end:
            raise UnreadableLine(RARE_DOCUMENT)
        scanner.end = around
        scanner.waiting = waiting
