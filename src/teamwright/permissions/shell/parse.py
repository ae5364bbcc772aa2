"""A shell command as the list of everything it would run, at any depth, and every file it would redirect.

Parsed with tree-sitter-bash, loaded when first needed. What is certain to mean the same to bash is listed as it
is; everything else is a *doubt*, and a command in doubt is never proven harmless. Does not know rules or modes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.permissions.shell.misread import (
    RESERVED,
    fills_in,
    here_document,
    holds_signs,
    is_code,
    names_descriptor,
    odd_characters,
    other_blanks,
    touching,
)
from teamwright.permissions.shell.parsed import Command, Parsed, Places, Redirect
from teamwright.permissions.shell.words import WORD_TYPES, Word, source, word_of
from teamwright.permissions.shell.wrappers import RUN_BY_PROGRAMS, Inside, Words, evaluated, inside
from teamwright.permissions.table import table

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_DEPTH = 8
"""Texts within texts (`bash -c "bash -c …"`); deeper is a doubt."""

MAX_BYTES = 64 * 1024
"""A longer command is not read, only asked about."""


@lru_cache(maxsize=512)
def parse(text: str, cwd: Path) -> Parsed:
    """The command line, as run in this directory. Never raises; the result is shared and must not be changed."""
    parsed = Parsed()
    if len(text) > MAX_BYTES:
        parsed.ok = False
        parsed.doubt = "it is too long to be read"
        return parsed
    walk = _Walk(parsed)
    walk.text(text, frozenset({cwd}))
    if parsed.evaluates and parsed.holds_code:
        walk.unreadable("it has a text that is evaluated")
    return parsed


@cache
def parser() -> Parser:
    """The parser of shell texts, loaded at the first use."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


_SEQUENCES = table(
    "program compound_statement do_group if_statement elif_clause else_clause while_statement for_statement"
    " case_statement case_item negated_command function_definition variable_assignments"
    " subshell pipeline heredoc_redirect file_redirect herestring_redirect select_statement"
)
_QUIET = table("comment heredoc_start heredoc_end heredoc_content string_content simple_heredoc_body ;")
_READS = frozenset({"<", "<&", "<<<"})
_SAFE_TESTS = table("-f -d -e -s -r -w -x -L -h -z -n = == != -a -o =~ < > ! && || ( )")
_SHELL_SIGNS = frozenset({"<", ">", "(", ")", "&&", "||", "=~"})
_SAFE_EXPANSION = frozenset({"${", "}", ":-", "-", "#", "##", "%", "%%", '"', ":+", "+"})
_CALCULATIONS = table(
    "binary_expression unary_expression postfix_expression ternary_expression parenthesized_expression"
)
_LOOPS = frozenset({"for_statement", "select_statement", "while_statement"})
_MOVES = frozenset({"cd", "pushd", "popd"})
_ASSIGNS = frozenset({"declaration_command", "unset_command", "variable_assignment"})


class _Walk:
    """One pass over the tree of a text, carrying where the shell would be.

    `visit` returns two sets of places: where the shell is if the node succeeded, and where it may be anyway.
    """

    def __init__(self, parsed: Parsed, depth: int = 0) -> None:
        self.parsed = parsed
        self.depth = depth
        self.lines: list[str] = []

    def doubt(self, why: str) -> None:
        self.parsed.doubt = self.parsed.doubt or why

    def unreadable(self, why: str) -> None:
        """What was parsed may not be what bash would run: not even a rule that forbids can be sure of it."""
        self.parsed.ok = False
        self.doubt(why)

    def text(self, text: str, places: Places) -> None:
        if self.depth > MAX_DEPTH:
            return self.unreadable("it is nested too deeply")
        if other_blanks(text):
            self.unreadable("it has characters that are easily misread")
        if odd_characters(text):
            self.doubt("it has characters that are easily misread")
        root = parser().parse(text.encode("utf-8", "surrogateescape")).root_node
        if root.has_error:
            self.unreadable("it is not a shell command that can be read")
        self.lines = text.split("\n")
        self.visit(root, places)
        return None

    def visit(self, node: Node, places: Places) -> tuple[Places, Places]:
        kind = node.type
        if kind == "command":
            return self.command(node, places)
        if kind == "redirected_statement":
            return self.redirected(node, places)
        if kind == "list":
            return self.list(node, places)
        if kind in {"file_redirect", "herestring_redirect"}:
            self.redirect(node, places)
        elif kind == "test_command":
            self.test(node, places)
        elif kind in _ASSIGNS:
            self.assign(node, places)
        elif kind in _SEQUENCES:
            return self.sequence(node, places)
        elif kind == "heredoc_body" or kind in WORD_TYPES:
            self.expression(node, places)
        elif node.is_named and kind not in _QUIET:
            self.doubt(f"it has a part that is not looked into ({kind.replace('_', ' ').lower()})")
            self.sequence(node, places)
        return places, places

    def sequence(self, node: Node, places: Places) -> tuple[Places, Places]:
        if node.type == "compound_statement" and node.children[0].type == "((":
            self.doubt("it calculates with variables")
            self.parsed.evaluates = True
        if node.type == "function_definition":
            self.doubt("it defines a function")
        if node.type in {"for_statement", "select_statement"}:
            self.parsed.sets.add(source(node.named_children[0]))
        reached = places
        for child in node.named_children:
            before = places if node.type == "pipeline" else reached
            reached = before | self.visit(child, before)[1]
        if node.type in _LOOPS and reached != places:
            self.doubt("it changes the directory in a loop")
        after = places if node.type in {"subshell", "pipeline"} else reached
        return after, after

    def list(self, node: Node, places: Places) -> tuple[Places, Places]:
        left, right = node.named_children[0], node.named_children[-1]
        both = any(child.type == "&&" for child in node.children)
        ok, ever = self.visit(left, places)
        right_ok, right_ever = self.visit(right, ok if both else ever)
        return (right_ok if both else ok | right_ok), ever | right_ever

    def redirected(self, node: Node, places: Places) -> tuple[Places, Places]:
        """A statement with redirections. Words behind a redirection belong to the command before it: `git >f push`."""
        body, *redirects = node.named_children
        strays = [word for redirect in redirects for word in _strays(redirect)]
        if body.type == "command":
            after = self.command(body, places, strays)
        else:
            after = self.visit(body, places)
            if strays:
                self.unreadable("it has words behind a redirection")
        for redirect in redirects:
            if redirect.type == "heredoc_redirect" and (why := here_document(redirect, self.lines)):
                self.unreadable(why)
            self.visit(redirect, after[1])
        return after

    def command(self, node: Node, places: Places, strays: Sequence[Node] = ()) -> tuple[Places, Places]:
        words: list[Word] = []
        variables: list[str] = []
        for child in (*node.children, *strays):
            if child.type == "variable_assignment":
                variables.append(self.variable(child, places))
            elif child.type in WORD_TYPES:
                self.expression(child, places)
                words.append(word_of(child))
                if names_descriptor(child):
                    self.unreadable("it redirects in a rare way")
            elif child.is_named:
                self.visit(child, places)
            else:
                self.doubt("it has a word that is quoted in a rare way")
        if why := touching(node):
            self.unreadable(why)
        written = tuple(word.text for word in words)
        globs = frozenset(at for at, word in enumerate(words) if word.glob)
        self.add(Command(written, places, globs, tuple(variables)))
        if written and written[0] in _MOVES:
            moved: Places = frozenset(_moved(place, written, bool(globs)) for place in places)
            return moved, moved | places
        return places, places

    def add(self, command: Command) -> None:
        """List a command, and before it what it would run in turn."""
        if command.words and command.words[0] in RESERVED:
            self.unreadable("it has a part that is not looked into")
        if any(map(is_code, evaluated(command.words))):
            self.unreadable("it has a text that is evaluated")
        wrapped = inside(command.words)
        if wrapped is None:
            self.parsed.commands.append(command)
            return
        if self.depth > MAX_DEPTH:
            return self.unreadable("it is nested too deeply")
        if wrapped.opaque:
            self.unreadable("it changes what the name of a command means")
        role = "wrap" if wrapped.clear and not command.globs else "unsure" if wrapped.guess else command.role
        role = "guess" if command.role == "guess" else role
        variables = command.variables + wrapped.variables
        self.parsed.commands.append(Command(command.words, command.places, command.globs, variables, role))
        self.add_inside(command, wrapped, variables)
        return None

    def add_inside(self, command: Command, wrapped: Inside, variables: tuple[str, ...]) -> None:
        inner = _Walk(self.parsed, self.depth + 1)
        first = len(self.parsed.commands)
        globbed = {command.words[at] for at in command.globs}
        guess = wrapped.guess or command.role == "guess"
        for words in wrapped.commands:
            globs = frozenset(at for at, word in enumerate(words) if word in globbed)
            inner.add(Command(words, command.places, globs, variables, "guess" if guess else "run"))
        if wrapped.script is not None and guess:
            self.guessed(wrapped.script, command.places)
        elif wrapped.script is not None:
            inner.text(wrapped.script, command.places)
        if any(found.name in _MOVES for found in self.parsed.commands[first:]):
            self.doubt("it changes the directory in a rare way")

    def guessed(self, text: str, places: Places) -> None:
        """A text that may be run, as far as one can tell: if it is a command, that can only forbid."""
        aside = Parsed()
        _Walk(aside, self.depth + 1).text(text, places)
        self.parsed.commands += [replace(found, role="guess") for found in aside.commands if aside.ok]

    def redirect(self, node: Node, places: Places) -> None:
        sign = next((child.type for child in node.children if not child.is_named), "")
        targets = [child for child in node.named_children if child.type != "file_descriptor"][:1]
        for target in targets:
            self.expression(target, places)
        if sign == "<<<":
            return
        if sign not in {"<", ">", ">>", "&>", "&>>", ">|", ">&", "<&"} or not targets:
            return self.doubt("it redirects in a rare way")
        word = word_of(targets[0])
        if sign in {">&", "<&"} and word.text is not None and (word.text.isdigit() or word.text == "-"):
            return None
        self.parsed.redirects.append(Redirect(word.text, sign not in _READS, places, word.glob))
        return None

    def test(self, node: Node, places: Places) -> None:
        """`[ … ]` and `[[ … ]]` run nothing, unless they calculate or expand something that does."""
        # to `[` a `>` is no comparison: the shell opens a file before the test begins
        safe = _SAFE_TESTS if node.children[0].type == "[[" else _SAFE_TESTS - _SHELL_SIGNS
        for child in node.children[1:-1]:
            self.test_part(child, places, safe)

    def test_part(self, node: Node, places: Places, safe: frozenset[str]) -> None:
        if node.type in {"binary_expression", "unary_expression", "parenthesized_expression", "negation_expression"}:
            for child in node.children:
                self.test_part(child, places, safe)
        elif node.type == "test_operator" or not node.is_named:
            if source(node) not in safe:
                self.doubt("it has a test that calculates")
                self.parsed.evaluates = True
        elif node.type in WORD_TYPES:
            self.parsed.holds_code |= _holds_code(node)
            self.expression(node, places)
        else:
            self.doubt("it has a test that is no plain one")
            self.visit(node, places)

    def assign(self, node: Node, places: Places) -> None:
        if node.type != "variable_assignment":
            plain = source(node.children[0]) in {"export", "local", "readonly"}
            if not plain or any((word_of(c).text or "-").startswith("-") for c in node.named_children if _is_word(c)):
                self.doubt("it declares variables in a rare way")
                self.parsed.evaluates = True
                self.parsed.holds_code |= any(_holds_code(child) for child in node.named_children)
            if node.type == "unset_command" and any(is_code(word_of(child).text) for child in node.named_children):
                self.unreadable("it has a text that is evaluated")
        for child in [node] if node.type == "variable_assignment" else node.named_children:
            if child.type == "variable_assignment":
                # a name that is exported, or may be, reaches every command that follows
                self.parsed.sets.add(self.variable(child, places))
            elif child.type == "variable_name":
                self.parsed.sets.add(source(child))

    def variable(self, node: Node, places: Places) -> str:
        """The name that an assignment sets; its value is looked through."""
        for child in node.named_children[1:]:
            self.expression(child, places)
            text = word_of(child).text
            self.parsed.holds_code |= _holds_code(child)
            if text and RUN_BY_PROGRAMS.search(source(node.named_children[0])):
                self.guessed(text.lstrip("|"), places)
        if node.named_children[0].type != "variable_name":
            self.doubt("it sets a part of a variable")
            self.expression(node.named_children[0], places)
        return source(node.named_children[0])

    def expression(self, node: Node, places: Places) -> None:
        """Look through a word for commands in it and for variables that it reads."""
        kind = node.type
        if (kind == "word" and holds_signs(node)) or (kind == "string" and any(map(fills_in, _contents(node)))):
            self.unreadable("it has a word that is quoted in a rare way")
        if kind in {"command_substitution", "process_substitution"}:
            if node.children[0].type == "`" and "\\" in source(node):
                self.doubt("it has backslashes between backticks")
            inner = places
            for child in node.named_children:
                inner = inner | self.visit(child, inner)[1]
            return
        if kind in {"arithmetic_expansion", "subscript"} and _has_name(node):
            self.doubt("it calculates with variables")
            self.parsed.evaluates = True
        if kind == "expansion" and not {c.type for c in node.children if not c.is_named} <= _SAFE_EXPANSION:
            self.doubt("it expands a variable in a rare way")
            self.parsed.evaluates = True
        if kind in {"simple_expansion", "expansion"}:
            self.parsed.reads.update(source(c) for c in node.children if c.type == "variable_name")
        for child in node.named_children:
            if child.type in WORD_TYPES or child.type in _CALCULATIONS or child.type in _QUIET:
                self.expression(child, places)
            else:
                self.visit(child, places)


def _holds_code(word: Node) -> bool:
    text = word_of(word).text
    return text is not None and is_code(text)


def _contents(string: Node) -> list[Node]:
    """What the parser takes for plain text between double quotes."""
    return [child for child in string.named_children if child.type == "string_content"]


def _strays(redirect: Node) -> list[Node]:
    """The words in a redirection's node that are not its target."""
    if redirect.type == "heredoc_redirect":
        found = [
            child for child in redirect.named_children if child.type in WORD_TYPES and child.type != "file_descriptor"
        ]
        inner = [word for child in redirect.named_children if child.type == "file_redirect" for word in _strays(child)]
        return found + inner
    if redirect.type == "file_redirect":
        return [child for child in redirect.named_children if child.type != "file_descriptor"][1:]
    return []


def _is_word(node: Node) -> bool:
    return node.type in WORD_TYPES and node.type != "variable_name"


def _has_name(node: Node) -> bool:
    return any(c.type in {"variable_name", "word", "subscript"} or _has_name(c) for c in node.named_children)


def _moved(place: Path | None, words: Words, glob: bool) -> Path | None:
    """Where `cd` leads from a place: by name, as the shell does it, not by real path."""
    targets = [word for word in words[1:] if word != "--"]
    if words[0] != "cd" or glob or len(targets) > 1:
        return None
    target = targets[0] if targets else "~"
    if target is None or target.startswith("-") or (place is None and not target.startswith(("/", "~"))):
        return None
    return Path(os.path.normpath(os.path.join(place or "/", os.path.expanduser(target))))
