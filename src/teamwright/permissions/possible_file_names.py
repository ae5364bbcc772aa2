"""Words of a command that may be names of files, for any program.

Depends on the words that `shell_lines` found. Programs with a proof are in the read-only tables, and verdicts in
`command_facts`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from teamwright.permissions.git_policy import split_git_command
from teamwright.permissions.read_only_commands import expand_arguments
from teamwright.shell_lines.command_words import base_name, word_set
from teamwright.shell_lines.expansion import ANY_SHAPE, Shape
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.shell_lines.step_limit import spend_steps

HARMLESS_FILES = word_set("/dev/null /dev/zero /dev/stdin /dev/stdout /dev/stderr /dev/tty /dev/random /dev/urandom")

PRINTING_PROGRAMS = word_set(
    "echo printf : true false test [ expr seq sleep kill wait exit return break continue shift type which whence hash"
    " command basename dirname export unset alias unalias umask ulimit jobs fg bg disown times pwd whoami id uname"
    " groups let getopts trap set shopt"
)
"""Programs that print their words, or use them as names, numbers and shell code."""

_TAKES_NO_FILES = PRINTING_PROGRAMS | word_set("cd pushd popd dirs ls stat mkdir rmdir nproc")
"""Programs that read no contents of files."""

_TAKES_FILES = word_set(
    "cat tac rev head tail nl less more most bat batcat pg cut paste comm cmp diff diff3 sdiff colordiff vimdiff delta"
    " sort uniq fold fmt pr expand unexpand column join look tsort shuf od xxd hexdump hd strings base32 base64 basenc"
    " uuencode sum cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum wc grep egrep fgrep zgrep rg ag"
    " ack sed awk gawk mawk nawk jq yq dd cp mv ln link install rsync scp tar zip gzip bzip2 xz zstd lz4 zcat bzcat"
    " xzcat zless bzless gunzip unzip cpio ar 7z openssl gpg age split csplit iconv pv view vi vim nvim nano emacs ed"
    " ex source . patch sqlite3 pandoc ul xargs dos2unix unix2dos"
)
"""Programs whose words are files that they read: an unknown word may be any file."""

SCRIPT_PROGRAMS = word_set(
    "bash sh zsh dash ksh ash fish python python2 python3 node nodejs deno bun ruby perl php lua Rscript tsx ts-node"
)
"""Programs whose first word is a file that they read."""

CODE_PROGRAMS = SCRIPT_PROGRAMS | word_set("awk gawk mawk nawk sed sqlite3 psql mysql vim nvim ex")
"""Programs with code in a word, which may name a file between quotes."""

_GREP = re.compile(
    r"-[rRnilcvwxEFGPhHsoqaIzUTLbZ0-9]+|-[ABCm]\d+|--(?!regexp|file)[a-z-]+=.*"
    r"|--(recursive|line-number|ignore-case|word-regexp|fixed-strings|extended-regexp|count|quiet|files-with-matches)"
)
_AWK = re.compile(r"-F.+")
_BEFORE_PATTERN = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep"), _GREP),
    **dict.fromkeys(("rg", "ag", "ack"), re.compile(r"-[nilcvwxFPsSuNHIoUp0]+|-[ABCm]\d+")),
    "sed": re.compile(r"-[nErsuz]*i?"),
    "jq": re.compile(r"-[rcnsSeMCaj]+"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
}
"""Programs whose first word is a pattern or a program text, with the options that may come before it."""

_PATTERN_OPTIONS = word_set("-e --regexp --expression")
_GIVES_PATTERN = re.compile(r"-[^-]*[eEf]|--(?:e|f|reg|so)")
_COUNTS = word_set("-A -B -C -m --max-count --include --exclude --exclude-dir")
_MESSAGE = word_set("-m --message -am -sm -asm -qm -nm -anm -aqm")
_TEXT_OPTIONS = {
    "git": _MESSAGE | word_set("--author --date --grep --since --until --after --before"),
    "gh": word_set("-t --title -b --body -l --label -a --assignee -r --reviewer -m --milestone"),
    **dict.fromkeys(("hub", "svn", "hg", "jj"), _MESSAGE),
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"), _PATTERN_OPTIONS | _COUNTS),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), word_set("-F -v --field-separator --assign")),
    "sed": _PATTERN_OPTIONS,
    **dict.fromkeys(("python", "python2", "python3"), word_set("-c -m")),
    **dict.fromkeys(("node", "nodejs", "bun", "tsx"), word_set("-e --eval -p --print")),
    **dict.fromkeys(("ruby", "lua", "Rscript"), word_set("-e")),
    "perl": word_set("-e -E"),
    "php": word_set("-r"),
}
"""Options whose value, the next word, is a text."""

_GIT_PRINTS_NAMES = word_set(
    "status log whatchanged shortlog ls-files ls-tree rev-list rev-parse describe name-rev branch tag remote fetch push"
    " pull merge rebase reset checkout switch restore clean rm check-ignore check-attr worktree bisect cherry"
    " merge-base for-each-ref show-ref reflog count-objects gc prune fsck init clone submodule sparse-checkout help"
    " version"
)
"""Subcommands of git that do not read the contents of their operands, or whose reads `git_access` knows."""

_GIT_TAKES_FILES = word_set("hash-object apply am interpret-trailers mailinfo merge-file stripspace config")
"""Subcommands of git whose words are files that they read."""

_DIRECTORY_OPTION = re.compile(r"(-C|--directory|--chdir|--cwd|--prefix|--work-tree)(?:=(.+))?|-C(?P<joined>.+)")
_LISTED_FILES = word_set("--files0-from=- --files0-from --files-from=- -T-")
"""Options after which the names of files come from the input."""

_SED_FILE = re.compile(r"(?=[rRwW][ \t]*([^\s;}]+))")
_SIGNS = re.compile(r"[=:,@<>;\"]+")
CODE_SIGNS = re.compile(r"[\s'\"`()\[\]{}=:,@<>;|&+]+")
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_FILE_URL = re.compile(
    r"(?<![a-zA-Z0-9])fileb?:(?P<whole>(?://(?P<host>[^/]*))?(?P<path>.*))", re.IGNORECASE | re.DOTALL
)
"""An address of a file in any spelling, also after another scheme (`git+file:`) or an option."""

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"?', re.DOTALL)
_URL_PATTERN = re.compile(r"(?!https?://)[^\[{]*[\[{]", re.IGNORECASE)
_NO_URL_PATTERNS = re.compile(r"-[a-zA-Z#]*g|--globo")
_CURL_TEXTS = word_set(
    "-d --data --data-ascii --data-binary --data-raw --data-urlencode --json -F --form --form-string -H --header"
    " --proxy-header -X --request -u --user -U --proxy-user -A --user-agent -e --referer -w --write-out -m --max-time"
    " --connect-timeout --retry --retry-delay -r --range --resolve --connect-to -x --proxy --url-query"
)
"""Options of curl whose value is no address."""
_MAX_CANDIDATES = 24


class Operand(Struct, frozen=True):
    """A word, or a part of it, that may be the name of a file.

    `shape` is a single text for a literal word. `is_certain`: the program takes such a word for a file. `below`:
    everything below it whose name matches this pattern is included. `new`: it is a directory, and files in it whose
    names match this pattern may be made before the command runs. `is_pathspec`: git gets it to find files of its work
    tree.
    """

    shape: Shape
    is_certain: bool = False
    below: str = ""
    new: str = ""
    is_pathspec: bool = False


def find_operands(command: ShellCommand) -> Iterator[Operand]:
    """Yield all possible file names among the words of a command without a proof."""
    words = command.words
    name = base_name(words[0]) or "" if words else ""
    if words and words[0] is None and not command.is_one_word(0):
        yield Operand(ANY_SHAPE, is_certain=True)  # it may become a program with a file
    git = split_git_command(words) or ()
    subcommand = git[1] if len(git) > 1 else ""
    if name in _TAKES_NO_FILES or subcommand in _GIT_PRINTS_NAMES:
        return
    texts = text_words(command)
    signs = CODE_SIGNS if name in CODE_PROGRAMS else _SIGNS
    certain_until = _first_word(command, texts) if name in SCRIPT_PROGRAMS else 0
    if name in _TAKES_FILES or subcommand in _GIT_TAKES_FILES or "--no-index" in git:
        certain_until = len(words)
    yield from (Operand(ANY_SHAPE, is_certain=True) for word in words if word in _LISTED_FILES)
    for at in range(1, len(words)):
        spend_steps(5)
        word = words[at]
        certain = at <= certain_until and not (word or "").startswith("-")
        if at in texts:
            yield from (Operand((part,)) for part in file_candidates(word or "", signs) if name in CODE_PROGRAMS)
            yield from (Operand((match[1],)) for match in _SED_FILE.finditer(word or "") if name == "sed")
        elif word is None:
            yield Operand(command.shape(at), certain)
            if _FILE_URL.search(command.shape(at)[0] or ""):
                yield Operand(ANY_SHAPE, is_certain=True)  # programs decode the rest of an address
            yield from _after_signs(command.shape(at))
        elif at in command.globs:
            names = glob_matches(command, at)
            yield from (Operand((text,), certain) for text in names or ())
            if names in (None, [word]):  # an earlier command may make a name that matches
                yield new_names(word) if names else Operand(glob_shape(word), certain)
                # Without a match the program gets the pattern itself.
                yield from _as_address(command, at)
        elif has_address_pattern(command, at):
            yield from _as_address(command, at)
        else:
            for part in file_candidates(word, signs):
                yield Operand((part,), certain and part == word)


def _first_word(command: ShellCommand, texts: set[int]) -> int:
    """Return the index of the script: the first word that is no option, unless an option has the code."""
    words = command.words
    first = next((at for at in range(1, len(words)) if not (words[at] or "").startswith("-")), 0)
    return 0 if first in texts else first


def base_directories(command: ShellCommand) -> Iterator[str | None]:
    """Yield the directories to which its words may be relative: the working directory, and those that options name."""
    named = [""]
    for at, word in enumerate(command.words[1:], 1):
        option = _DIRECTORY_OPTION.fullmatch(word or "")
        if option is not None:
            value = option[2] or option["joined"] or (command.words[at + 1] if at + 1 < len(command.words) else None)
            named += [os.path.join(directory, os.path.expanduser(value)) for directory in named[:2]] if value else []
    for place in command.directories:
        for directory in named:
            unknown = place is None and not directory.startswith("/")
            yield None if unknown else os.path.join(place or "/", directory)


def text_words(command: ShellCommand) -> set[int]:
    """Return the indexes of words that are text for the program: a pattern, a message, a piece of code."""
    words = command.words
    name = base_name(words[0]) or "" if words else ""
    options, before = _TEXT_OPTIONS.get(name, frozenset[str]()), _BEFORE_PATTERN.get(name)
    found: set[int] = set()
    at = 1
    while at < len(words):
        word = words[at]
        begin = word or command.shape(at)[0] or ""
        if word in options and at + 1 < len(words) and command.is_one_word(at + 1):
            at += 1
            found.add(at)
            before = None if word in _PATTERN_OPTIONS else before
        elif begin.startswith("--") and begin.partition("=")[0] in options and command.is_one_word(at):
            found.add(at)
            before = None if begin.partition("=")[0] in _PATTERN_OPTIONS else before
        elif before is not None and not begin.startswith("-"):
            found |= {at} if command.is_one_word(at) and not _pattern_follows(command, at) else set()
            before = None
        elif before is not None and not before.fullmatch(word or ""):
            before = None  # it may take the next word as its value
        at += 1
    return found


def _pattern_follows(command: ShellCommand, at: int) -> bool:
    """Return True when a later word may be an option with the pattern: this word is then a file."""
    spend_steps(len(command.words) - at)
    begins = (command.shape(later)[0] for later in range(at + 1, len(command.words)))
    return any(begin is None or _GIVES_PATTERN.match(begin) for begin in begins)


def option_values(option: str, command: ShellCommand, start: int = 1) -> Iterator[Operand]:
    """Yield the values of an option: in the next word, joined, or after `=`. A long option may be abbreviated."""
    spend_steps(2 * len(command.words))
    for at in range(start, len(command.words)):
        shape = command.shape(at)
        word = shape[0] or ""
        name, equals, value = word.partition("=")
        following = Operand(command.shape(at + 1) if at + 1 < len(command.words) else (".",), is_certain=True)
        if word == option and len(shape) == 1:
            yield following
        elif option.startswith("--") and len(name) > 2 and option.startswith(name):
            yield Operand((value, *shape[1:]), is_certain=True) if equals else following
        elif len(option) == 2 and (cluster := re.match(rf"-[A-Za-z]*?{option[1]}", word)):
            rest = (word[cluster.end() :], *shape[1:])
            yield Operand(rest, is_certain=True) if any(part != "" for part in rest) else following


def glob_shape(word: str) -> Shape:
    """Return the known parts of the names that a word with `*`, `?` and `[ab]` matches."""
    parts = re.split(r"((?:[*?]|\[\w+\])+)", word)
    return tuple(None if at % 2 else part for at, part in enumerate(parts) if part)


def new_names(pattern: str) -> Operand:
    """Return the names that match a pattern which matches nothing yet."""
    directory, _, name = pattern.rpartition("/")
    if set(directory) & set("*?["):
        return Operand(glob_shape(pattern), is_certain=True)
    return Operand((directory or ".",), is_certain=True, new=name)


def glob_matches(command: ShellCommand, at: int) -> list[str] | None:
    """Return the file names that the pattern at this index matches now, or None when they cannot be known."""
    return expand_arguments(replace(command, words=(command.words[0], command.words[at]), globs=frozenset({1})))


def may_be_file(written: str, path: str) -> bool:
    """Return True when a word looks like the name of a file, or is one."""
    spend_steps(3)
    return "." in written or "/" in written or os.path.lexists(path)


def _after_signs(shape: Shape) -> Iterator[Operand]:
    """Yield the shape without an option or a key before it: `--in="src/$X"`, `if="src/$X"`."""
    begin = shape[0]
    if begin is not None and (begin.startswith("-") or _SIGNS.search(begin)):
        bare = begin[2:] if re.match(r"-[^-]", begin) else _SIGNS.split(begin)[-1]
        yield Operand((bare, *shape[1:]))


def _files_of_addresses(word: str) -> Iterator[str]:
    """Yield the files that an address may mean, with and without decoding and the parts after its path."""
    for found in list(_FILE_URL.finditer(word))[:_MAX_CANDIDATES]:
        for text in (found["path"], found["whole"].lstrip("/"), f"/{found['whole'].lstrip('/')}"):
            for part in (text, re.split(r"[?#;]", text, maxsplit=1)[0]):
                yield from (one for one in (part, unquote(part)) if one)


def _as_address(command: ShellCommand, at: int) -> Iterator[Operand]:
    """Yield the files that a word may mean as an address."""
    if has_address_pattern(command, at):
        yield Operand(ANY_SHAPE, is_certain=True)
    yield from (Operand((file,)) for file in _files_of_addresses(command.words[at] or ""))


def has_address_pattern(command: ShellCommand, at: int) -> bool:
    """Return True for a word of curl in which it expands `[a-z]` or `{a,b}`, so that it may be the address of any file.

    A word that begins with `http:` is the address of a page.
    """
    word = command.words[at]
    if word is None or base_name(command.words[0]) != "curl" or _URL_PATTERN.match(word) is None:
        return False
    if any(one is not None and _NO_URL_PATTERNS.match(one) for one in command.words[1:]):
        return False
    return word.startswith(("-T", "--up", "--url")) or (
        not word.startswith("-") and command.words[at - 1] not in _CURL_TEXTS
    )


def file_candidates(word: str, signs: re.Pattern[str] = _SIGNS) -> list[str]:
    """Return the word, and the parts that may be a file: `if=FILE`, `@FILE`, `-fFILE`, `FILE:/mount`, `file://FILE`."""
    files = list(_files_of_addresses(word))
    if _URL.match(word) and not _FILE_URL.match(word):
        return list(dict.fromkeys(files))
    spend_steps(len(word) // 8)
    found = [word, *files]
    found += [re.sub(r"\\(.)", r"\1", text[1]) for text in list(_QUOTED.finditer(word))[:_MAX_CANDIDATES]]
    if word.startswith("-") and not word.startswith("--"):
        found += [word[at:] for at in range(2, min(len(word), _MAX_CANDIDATES))]
    found += [word[sign.end() :] for sign in list(signs.finditer(word))[:_MAX_CANDIDATES]]
    found += signs.split(word)[:_MAX_CANDIDATES]
    spend_steps(2 * len(found))
    return [part for part in dict.fromkeys(found) if part and part not in HARMLESS_FILES]
