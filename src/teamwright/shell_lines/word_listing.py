"""The contents of a command's words: substituted commands, and variables that are read, set and declared.

Adds to the list of `parser`, which follows statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from teamwright.shell_lines.ambiguity import is_code, may_become_code
from teamwright.shell_lines.command_listing import CommandListing, ListingState
from teamwright.shell_lines.command_words import Words
from teamwright.shell_lines.evaluated_text import INTEGER_VARIABLES, has_subscript
from teamwright.shell_lines.parsed_line import Directories, FileRedirect, ShellCommand
from teamwright.shell_lines.syntax_tree import (
    Assignment,
    Calculation,
    EncodedText,
    Expansion,
    FixedText,
    ForLoop,
    Redirection,
    SimpleCommand,
    StatementSequence,
    Substitution,
    TestCommand,
    Variable,
    Word,
    WordPart,
)
from teamwright.shell_lines.variables import NAME, PLAIN_TESTS, is_arithmetic
from teamwright.shell_lines.word_expansion import (
    UNKNOWN_WORD,
    ExpandedWord,
    assigned_value,
    expand_single,
    expand_word,
    has_braces,
)

_READS = frozenset({"<", "<&", "<<<"})
_FILES = frozenset({"<", ">", ">>", "&>", "&>>", ">|", ">&", "<&"})
_DESCRIPTOR = re.compile(r"[0-9]*-?")
_DECLARED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)?")
_TEST_OPERATOR = re.compile(r"-[A-Za-z]{1,2}")
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_SHELL_TABLES = frozenset({"BASH_ALIASES", "BASH_CMDS", "aliases", "functions", "commands", "galiases", "saliases"})
"""Arrays of shells that define the meaning of a command's name."""


_INTEGER = re.compile(r"-[A-Za-z]*i")
"""An option of a declaration after which values are evaluated."""

_TEXT_OPERATOR = re.compile(r"[@*]|[/^,%#].*|[: \d-]+", re.DOTALL)


def _is_text_expansion(part: Expansion) -> bool:
    """Return True for an expansion that evaluates no value: `${x/a/b}`, `${x:0:3}`, `${list[@]}`."""
    texts = [one.text for one in part.parts if isinstance(one, FixedText)]
    return len(texts) == len(part.parts) and _TEXT_OPERATOR.fullmatch("".join(texts)) is not None


def _is_piece_of_code(part: WordPart) -> bool:
    """Return True for a part with a literal `$`, and for one whose text is not known."""
    match part:
        case FixedText():
            return may_become_code(part.text)
        case Expansion():
            return any(map(_is_piece_of_code, part.parts))
        case _:
            return isinstance(part, EncodedText)


_INTEGER_SET = "it sets a variable whose values are evaluated"


class WordListing:
    """The list for one text, as far as words are concerned. `list_statements` lists those of a substitution."""

    def __init__(
        self,
        state: ListingState,
        commands: CommandListing,
        list_statements: Callable[[StatementSequence, Directories], None],
    ) -> None:
        self.state = state
        self.commands = commands
        self._list_statements = list_statements

    def fields(self, words: Iterable[Word]) -> list[ExpandedWord]:
        """Return the words of a command, with braces expanded up to a limit for the whole line."""
        found: list[ExpandedWord] = []
        steps = self.state.steps
        for word in words:
            known = steps.left > 0 or not has_braces(word)
            many = expand_word(word, self.state.values) if known else [UNKNOWN_WORD]
            steps.left -= len(many)
            found += many
        self.state.parsed.holds_code |= any(field.text is not None and is_code(field.text) for field in found)
        return found

    def list_names(self, words: Iterable[Word], places: Directories) -> None:
        """List the words of a loop or an array like those of a command: a pattern among them lists a directory."""
        fields = [ExpandedWord(":"), *self.fields(words)]
        if any(field.glob or field.splits for field in fields):
            self.list_fields(fields, places)

    def loop_values(self, node: ForLoop) -> None:
        """Note what the values of a loop may become when the line evaluates the variable of the loop."""
        self.state.parsed.holds_code |= any(map(self._may_become_code, node.words or ()))
        self.state.parsed.odd_values.add(node.name)
        if node.name in INTEGER_VARIABLES:
            self._note_calculation(_INTEGER_SET)

    def list_fields(self, fields: list[ExpandedWord], places: Directories, variables: tuple[str, ...] = ()) -> None:
        """List a command with these words."""
        self.commands.list_command(
            ShellCommand(
                tuple(field.text for field in fields),
                places,
                frozenset(at for at, field in enumerate(fields) if field.glob),
                variables,
                shapes={at: field.shape for at, field in enumerate(fields) if field.text is None},
                splits=frozenset(at for at, field in enumerate(fields) if field.splits),
            )
        )

    def list_word(self, word: Word | None, places: Directories) -> None:
        """List the commands in a word and the variables that it reads."""
        if word is not None:
            self.list_parts(word.parts, places)

    def list_parts(self, parts: Iterable[WordPart], places: Directories) -> None:
        """List the commands in parts of words."""
        for part in parts:
            if isinstance(part, Substitution):
                self.state.parsed.takes_input |= not part.process
                with self.state.separate_shell():
                    self._list_statements(part.body, places)
            elif isinstance(part, Variable | Expansion):
                self._read(part.name)
            elif isinstance(part, Calculation) and part.is_uncertain:
                self._note_calculation("it calculates with variables, or may fail")
            if isinstance(part, Expansion) and not part.is_plain:
                self._note_calculation("it expands a variable in a rare way", calculates=not _is_text_expansion(part))
            if isinstance(part, Expansion | Calculation | EncodedText):
                self.list_parts(part.parts, places)

    def _read(self, name: str) -> None:
        if NAME.fullmatch(name) and name not in self.state.values.assigned:
            self.state.parsed.variables_read.add(name)

    def _note_calculation(self, why: str, *, calculates: bool = True) -> None:
        self.state.add_doubt(why)
        self.state.parsed.evaluates = True
        self.state.parsed.calculates |= calculates

    def assign(self, assignment: Assignment, places: Directories) -> None:
        """List the commands in an assignment; programs may run its value."""
        self.list_word(assignment.value, places)
        self.list_names(assignment.items or (), places)
        for item in assignment.items or ():
            self.list_word(item, places)
            self.state.parsed.holds_code |= self._may_become_code(item)
        if assignment.value is not None:
            self._check_value(assignment.name, assignment.value, places)
        if assignment.adds or assignment.items is not None:
            self.state.parsed.odd_values.add(assignment.name)
        if assignment.name in _SHELL_TABLES and (assignment.element is not None or assignment.items is not None):
            self.state.mark_unreadable("it changes what the name of a command means")
        if (
            assignment.name in INTEGER_VARIABLES
            and not ((assignment.value and assignment.value.literal) or "x").isdigit()
        ):
            self._note_calculation(_INTEGER_SET)
        if assignment.element is not None:
            self.state.add_doubt("it sets a part of a variable")
            if not (assignment.element.literal or "x").isdigit():
                self._note_calculation("it sets a part of a variable")

    def _check_value(self, name: str, value: Word, places: Directories) -> None:
        self.state.parsed.holds_code |= self._may_become_code(value)
        self.commands.check_value(name, assigned_value(value, self.state.values), places)

    def _holds_code(self, word: Word) -> bool:
        text = assigned_value(word, self.state.values)
        return text is not None and is_code(text)

    def _may_become_code(self, word: Word) -> bool:
        """Return True when a stored value is code, or a piece of which the line may make code."""
        return self._holds_code(word) or any(map(_is_piece_of_code, word.parts))

    def assign_alone(self, node: SimpleCommand, places: Directories) -> None:
        """List assignments without a command. They set variables of this shell from here on."""
        for assignment in node.assignments:
            value = None
            if assignment.value is not None and assignment.element is None and not assignment.adds:
                value = assigned_value(assignment.value, self.state.values)
            self.state.parsed.variables_set.add(assignment.name)
            self.state.values.assign(assignment.name, None if node.redirections else value)
            if not (node.redirections or assignment.adds or assignment.element):
                self.state.values.assigned |= {assignment.name}

    def declare(self, node: SimpleCommand, fields: list[ExpandedWord], places: Directories) -> None:
        """List `export`, `declare`, `unset` and the like. Without a name they print every variable, secrets too."""
        name = fields[0].text or ""
        written = tuple(field.text for field in fields)
        plain = name in {"export", "local", "readonly", "unset"} and len(node.words) + len(node.assignments) > 1
        for word, field in zip(node.words[1:], fields[1:], strict=False):
            found = _DECLARED.match(field.text or "")
            if found is None or (found.end() < len(field.text or "") and not found[2]):
                plain = False
                continue
            self._declared(name, found[1], valued=bool(found[2]) or name == "unset")
            if found[2] == "=" and name in {"export", "readonly"} and not node.redirections:
                self.state.values.assigned |= {found[1]}
            if found[2]:
                self._check_declared(found[1], word, field, places)
        for assignment in node.assignments:
            self._declared(name, assignment.name, valued=True)
        if not plain or len(fields) != len(node.words):
            self.state.add_doubt("it declares variables in a rare way")
            self.state.parsed.evaluates = True
            self.state.parsed.calculates |= any(
                word is None or _INTEGER.match(word) or has_subscript(word) for word in written[1:]
            )
            self.state.parsed.holds_code |= any(field.text is not None and is_code(field.text) for field in fields)
        if name == "unset" and any(is_code(word) for word in written[1:]):
            self.state.mark_unreadable("it has a text that is evaluated")
        shapes = {at: field.shape for at, field in enumerate(fields) if field.text is None}
        if len(fields) == len(node.words):  # bash does not split the value of a declared variable
            for at in shapes:
                first = node.words[at].parts[:1]
                if first and isinstance(first[0], FixedText) and _DECLARED.match(first[0].text):
                    shapes[at] = (first[0].text, None)
        self.state.parsed.commands.append(ShellCommand(written, places, role="wrap" if plain else "run", shapes=shapes))

    def _declared(self, builtin: str, name: str, valued: bool) -> None:
        """Note a variable of a declaration; one without a value sets none, but may export one."""
        if valued:
            self.state.parsed.variables_set.add(name)
        elif builtin == "readonly":
            self._read(name)  # its value from the environment is kept
        if builtin == "export":
            self.state.parsed.variables_exported.add(name)

    def _check_declared(self, name: str, word: Word, field: ExpandedWord, places: Directories) -> None:
        value = (field.text or "").partition("=")[2]
        self.state.parsed.holds_code |= may_become_code(value)
        if name in INTEGER_VARIABLES and not value.isdigit():
            self._note_calculation(_INTEGER_SET)
        self.commands.check_value(name, value, places)

    def test(self, node: TestCommand, places: Directories) -> tuple[Directories, Directories]:
        """List `[[ … ]]`, which runs nothing unless it calculates or expands something that does."""
        words: list[str | None] = []
        for item in node.items:
            if is_arithmetic(item):
                self._note_calculation("it has a test that calculates")
            if isinstance(item, str):
                words.append(item)
                continue
            self.list_word(item, places)
            self.state.parsed.holds_code |= self._holds_code(item)
            words.append(expand_single(item, self.state.values).text)
        self.state.parsed.commands.append(ShellCommand(("[[", *words, "]]"), places))
        return places, places

    def check_test(self, words: Words) -> None:
        """Check `[ … ]` and `test` as commands: zsh evaluates compared numbers."""
        for at, word in enumerate(words):
            if word is None or not _TEST_OPERATOR.fullmatch(word) or word in PLAIN_TESTS:
                continue
            operands = (words[at - 1], words[at + 1] if at + 1 < len(words) else None)
            if word not in _NUMERIC or not all(operand is not None and operand.isdigit() for operand in operands):
                self._note_calculation("it has a test that calculates", calculates=word == "-v")
                self.state.parsed.holds_code |= any(word is not None and is_code(word) for word in words)

    def redirect(self, node: Redirection, places: Directories) -> None:
        """List the file that a redirection opens."""
        self.list_word(node.target, places)
        self.list_parts(node.body, places)
        fixed = "".join(part.text for part in (*node.target.parts, *node.body) if isinstance(part, FixedText))
        self.state.parsed.holds_code |= is_code(fixed)
        if node.sign in {"<<", "<<-", "<<<"}:
            return
        if node.sign not in _FILES:
            return self.state.add_doubt("it redirects in a rare way")
        field = expand_single(node.target, self.state.values)
        if node.sign in {">&", "<&"} and field.text is not None and _DESCRIPTOR.fullmatch(field.text):
            return None
        self.state.parsed.redirects.append(
            FileRedirect(field.text, node.sign not in _READS, places, field.glob, field.shape)
        )
        return None
