"""The words of a shell line: quotes, escapes and expansions.

Only text that bash 3.2 to 5.3 and zsh read alike is accepted; other text raises UnreadableLine. Statements and
line ends are in `grammar`. Expands nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from teamwright.shell_lines.line_cursor import (
    META,
    NOT_BASH,
    RARE_DOCUMENT,
    RARE_QUOTES,
    LineCursor,
    UnreadableLine,
)
from teamwright.shell_lines.syntax_tree import (
    Calculation,
    EncodedText,
    Expansion,
    FixedText,
    SimpleCommand,
    StatementSequence,
    Substitution,
    Variable,
    Word,
    WordPart,
)

_BARE = re.compile(r"""[^ \t\n;&|<>()"'`\\$]+""")
_FOREIGN_BLANK = re.compile(r"\s|\u200b|\ufeff")
_IN_QUOTES = re.compile(r'[^"\\$`]*')
_IN_DOCUMENT = re.compile(r"[^\\$`]*")
_IN_BRACES = re.compile(r"""[^"'`\\${}()<>\]\n]+""")
_IN_CALCULATION = re.compile(r"[A-Za-z0-9_ \t+*/%<>=!|&^~?:,.@#\[\]-]+")
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_BRACED = re.compile(r"\$\{([#!]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])")
_PLAIN_OPERATION = re.compile(r":?[-+]|##?|%%?")
_SURE = re.compile(r"\s*(0|[1-9][0-9]*)(\s*[-+*]\s*(0|[1-9][0-9]*))*\s*")
"""Expressions without variables and without an error, which would end the list of commands around them."""
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_SIGNS = {"n": "\n", "t": "\t", "\\": "\\"}
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")


class WordReader:
    """Reads words. `statements` reads those of a substitution, up to a text that cannot begin one."""

    def __init__(self, scanner: LineCursor, statements: Callable[[], StatementSequence]) -> None:
        self.scanner = scanner
        self._statements = statements

    def document_parts(self) -> list[WordPart]:
        """Read the expansions between here and the end of a here-document."""
        return self._filled(_IN_DOCUMENT, "$`\\")

    def word(self, inside: bool = False) -> Word | None:
        """Parse the word that begins here; return None without one.

        `inside`: it continues a word, so it is no comment.
        """
        scanner = self.scanner
        start = scanner.at
        parts: list[WordPart] = []
        if not inside and scanner.is_next("#"):
            return None
        while scanner.at < scanner.end and scanner.text[scanner.at] not in META:
            parts += self._piece(scanner.text[scanner.at])
        if scanner.is_next("<(") or scanner.is_next(">("):
            if parts:
                raise UnreadableLine(RARE_QUOTES)
            parts.append(Substitution(self._substituted(2), process=True))
            if scanner.at < scanner.end and scanner.text[scanner.at] not in META:
                raise UnreadableLine(RARE_QUOTES)
        if not parts:
            return None
        if scanner.waiting and "\n" in scanner.text[start : scanner.at]:
            raise UnreadableLine(RARE_DOCUMENT)
        # `a[1; 2]=x`: in bash, blanks and operators may belong to a subscript where an assignment can be.
        found = _SUBSCRIPT.match(self.scanner.text, start, self.scanner.at)
        if found is not None and "]" not in self.scanner.text[found.end() : self.scanner.at]:
            raise UnreadableLine("it sets a part of a variable in a rare way")
        return Word(tuple(parts), start)

    def _piece(self, char: str) -> list[WordPart]:
        scanner = self.scanner
        if char == "'":
            return [FixedText(self._text_up_to("'"), quoted=True)]
        if char == '"':
            return self._quoted()
        if char == "\\":
            return [FixedText(self._escaped(), quoted=True)]
        if char == "`":
            return [self._backticks(quoted=False)]
        if char == "$":
            return [self._filled_in(quoted=False)]
        found = _BARE.match(scanner.text, scanner.at, scanner.end)
        if found is None:
            raise UnreadableLine(NOT_BASH)
        scanner.at = found.end()
        if not found[0].isascii() and (_FOREIGN_BLANK.search(found[0]) or scanner.has_old_blank(found[0])):
            raise UnreadableLine("it has characters that are easily misread")
        return [FixedText(found[0])]

    def _text_up_to(self, quote: str) -> str:
        """Return the text up to the next such quote."""
        scanner = self.scanner
        end = scanner.text.find(quote, scanner.at + 1, scanner.end)
        if end < 0:
            raise UnreadableLine(NOT_BASH)
        inner = scanner.text[scanner.at + 1 : end]
        scanner.at = end + 1
        return inner

    def _escaped(self) -> str:
        scanner = self.scanner
        following = scanner.text[scanner.at + 1 : scanner.at + 2] if scanner.at + 1 < scanner.end else ""
        if not following or following == "\n":
            raise UnreadableLine("it has a backslash at the end of a line")
        scanner.at += 2
        return following

    def _quoted(self) -> list[WordPart]:
        self.scanner.at += 1
        parts = self._filled(_IN_QUOTES, '$`"\\')
        self.scanner.expect('"')
        return parts or [FixedText("", quoted=True)]

    def _filled(self, plain: re.Pattern[str], escaped: str) -> list[WordPart]:
        """Parse text with variables and substitutions, up to a quote or the end."""
        scanner = self.scanner
        parts: list[WordPart] = []
        text = ""
        while True:
            found = plain.match(scanner.text, scanner.at, scanner.end)
            text += found[0] if found is not None else ""
            scanner.at = found.end() if found is not None else scanner.at
            char = scanner.char()
            if char == "\\":
                following = scanner.text[scanner.at + 1 : min(scanner.at + 2, scanner.end)]
                text += {"\n": ""}.get(following, following if following in escaped else char + following)
                scanner.at += 1 + len(following)
                continue
            if text:
                parts.append(FixedText(text, quoted=True))
                text = ""
            if char == "`":
                parts.append(self._backticks(quoted=True))
            elif char == "$":
                parts.append(self._filled_in(quoted=True))
            else:
                return parts

    def _filled_in(self, quoted: bool) -> WordPart:
        """Parse an expansion that begins with a dollar sign.

        Shells remove a backslash before a newline first, so what follows may belong to it.
        """
        found = self._expanded(quoted)
        scanner = self.scanner
        if scanner.text.startswith("\\\n", scanner.at) and scanner.text[scanner.at - 1] not in ")}":
            raise UnreadableLine("it has a line end in an expansion")
        return found

    def _expanded(self, quoted: bool) -> WordPart:
        scanner = self.scanner
        if scanner.is_next("$(("):
            return self.calculation("$((", quoted)
        if scanner.is_next("$("):
            return Substitution(self._substituted(2), quoted)
        if scanner.is_next("${"):
            return self._expansion(quoted)
        if scanner.is_next("$["):
            raise UnreadableLine("it calculates in a rare way")
        if not quoted and scanner.is_next("$'"):
            # `$'…'`
            self.scanner.at += 1
            inner = self._text_up_to("'")
            if inner.endswith("\\") and (len(inner) - len(inner.rstrip("\\"))) % 2:
                raise UnreadableLine(RARE_QUOTES)  # an escaped quote, which other shells take for the end
            decoded = _ESCAPE.sub(_decoded, inner)
            return EncodedText() if "\0" in decoded else FixedText(decoded, quoted=True)
        if not quoted and scanner.is_next('$"'):
            scanner.at += 1
            return EncodedText(tuple(self._quoted()))
        found = _VARIABLE.match(scanner.text, scanner.at, scanner.end)
        if found is None:
            scanner.at += 1
            if scanner.char() and scanner.char() in "=~^+":  # in zsh `$=x`, `$~x` are values of x
                raise UnreadableLine("it expands a variable in a rare way")
            return FixedText("$", quoted)
        scanner.at = found.end()
        following = self.scanner.char()
        if following > "\x7f" or (found[1] == "#" and following and (following.isalnum() or following in "_@*#?$!-")):
            raise UnreadableLine("it expands a variable in a rare way")  # zsh takes more for the name
        if following and following in "[:":  # in zsh `$x[1]` is an element, `$x:h` the directory
            return Expansion(found[1], quoted=quoted, is_one_word=found[1] not in "@*")
        return Variable(found[1], quoted)

    def _expansion(self, quoted: bool) -> WordPart:
        """Parse `${…}`."""
        scanner = self.scanner
        found = _BRACED.match(scanner.text, scanner.at, scanner.end)
        if found is None:
            raise UnreadableLine("it expands a variable in a rare way")
        sign, name = found[1], found[2]
        scanner.at = found.end()
        if scanner.is_next("}") and not sign:
            scanner.at += 1
            return Variable(name, quoted)
        scanner.descend()
        subscript = self._subscript(quoted) if scanner.is_next("[") else []
        operation = _PLAIN_OPERATION.match(scanner.text, scanner.at, scanner.end)
        plain = not subscript and sign != "!" and (operation is not None or (sign == "#" and scanner.is_next("}")))
        operand = self._operand("}", quoted)
        scanner.ascend()
        whole = any(isinstance(part, FixedText) and set(part.text) & set("@*") for part in subscript)
        many = any(isinstance(part, Variable) and part.name in "@*" for part in operand)
        one = name not in "@*" and not whole and not many and sign != "!"
        return Expansion(name, (*subscript, *operand), quoted, plain, one)

    def _subscript(self, quoted: bool) -> list[WordPart]:
        self.scanner.at += 1
        return self._operand("]", quoted) or [FixedText("")]

    def _operand(self, stop: str, quoted: bool) -> list[WordPart]:
        """Parse the text between the operator of an expansion and its closing bracket."""
        scanner = self.scanner
        parts: list[WordPart] = []
        while not scanner.is_next(stop):
            char = scanner.char()
            if char == "]":
                scanner.at += 1
                parts.append(FixedText("]"))
            elif char in {"$", "`"}:
                parts.append(self._filled_in(quoted) if char == "$" else self._backticks(quoted))
            elif char in {"'", '"'} and not quoted:
                parts += self._piece(char)
            elif char and char in "<>" and not scanner.text.startswith("(", scanner.at + 1):
                scanner.at += 1
                parts.append(FixedText(char))
            else:
                found = _IN_BRACES.match(scanner.text, scanner.at, scanner.end)
                if found is None:
                    raise UnreadableLine("it expands a variable in a rare way")
                scanner.at = found.end()
                parts.append(FixedText(found[0]))
        scanner.at += 1
        return parts

    def calculation(self, opening: str, quoted: bool = True, semicolons: bool = False) -> Calculation:
        """Parse `$((…))` or `((…))`; the brackets must close so that bash has only one reading."""
        scanner = self.scanner
        scanner.descend()
        start = scanner.at
        scanner.at += len(opening)
        parts: list[WordPart] = []
        open_brackets = 0
        while not (open_brackets == 0 and scanner.is_next(")")):
            char = scanner.char()
            found = _IN_CALCULATION.match(scanner.text, scanner.at, scanner.end)
            if found is not None:
                scanner.at = found.end()
                if scanner.is_next("(") and found[0][-1] in "<>":
                    raise UnreadableLine("it calculates in a rare way")
            elif char == "$":
                parts.append(self._filled_in(quoted=True))
            elif char in {"(", ")"} or (char == ";" and semicolons):
                open_brackets += {"(": 1, ")": -1}.get(char, 0)
                scanner.at += 1
            else:
                raise UnreadableLine("it calculates in a rare way")
        if not scanner.is_next("))"):
            raise UnreadableLine("it calculates in a rare way")
        scanner.at += 2
        scanner.ascend()
        inner = scanner.text[start + len(opening) : scanner.at - 2]
        return Calculation(tuple(parts), quoted, _SURE.fullmatch(inner) is None)

    def _substituted(self, opening: int) -> StatementSequence:
        """Parse the statements up to the bracket that closes a substitution."""
        self.scanner.at += opening
        body = self._read_separately()
        self.scanner.expect(")")
        return body

    def _read_separately(self) -> StatementSequence:
        """Parse separate statements, with separate here-documents."""
        scanner = self.scanner
        around, scanner.waiting = scanner.waiting, []
        documents = scanner.documents_read
        scanner.substituted += 1
        scanner.descend()
        body = self._statements()
        scanner.ascend()
        scanner.substituted -= 1
        # Bash rewrites a substitution before it runs it, and text after a here-document may differ then.
        alone = len(body.items) == 1 and isinstance(body.items[0], SimpleCommand) and not body.background
        if scanner.waiting or (scanner.documents_read > documents and not alone):
            raise UnreadableLine(RARE_DOCUMENT)
        scanner.waiting = around
        scanner.documents_read = documents
        return body

    def _backticks(self, quoted: bool) -> Substitution:
        scanner = self.scanner
        end = scanner.text.find("`", scanner.at + 1, scanner.end)
        inner = scanner.text[scanner.at + 1 : end]
        if end < 0 or "\\" in inner or "<<" in inner or (quoted and '"' in inner):
            raise UnreadableLine("it has backticks that are used in a rare way")
        around, scanner.end = scanner.end, end
        scanner.at += 1
        body = self._read_separately()
        if scanner.at != end:
            raise UnreadableLine(NOT_BASH)
        scanner.at = end + 1
        scanner.end = around
        return Substitution(body, quoted)


def _decoded(escape: re.Match[str]) -> str:
    """Return the character of an escape, or NUL for one that shells may decode differently."""
    hexadecimal, octal, sign = escape.groups()
    if sign is not None:
        return _SIGNS.get(sign, "\0")
    char = chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
    return char if char.isascii() and (char.isprintable() or char in "\t\n") else "\0"
