"""Entries of a git configuration file that could make a reading command run a program or leave the repository.

Only lines of one plain form are parsed, and only keys listed here are harmless; every other line is an entry. Formats:
git-config(1). Runs nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from teamwright.processes.mentioned_files import TOO_MUCH, content_digest, named_code, tree_files
from teamwright.storage.files import read_plain

FileState = tuple[int, ...]
"""Inode, times of change and size of a file; empty where there is none."""

MAX_CONFIG_BYTES = 1_000_000
"""Bytes of a configuration file that are read; a longer one is not judged."""

_MAX_DEPTH = 10
"""Includes in includes that git follows."""

_SECTION = re.compile(rb'\[([A-Za-z][A-Za-z0-9-]*)(?: "([^"\\\x00-\x1f\x7f]*)")?\][ \t]*')
_LINE = re.compile(rb"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*([^\\\x00-\x08\x0a-\x1f\x7f]*))?")
_BLANK = re.compile(rb"[ \t]*(?:[#;][^\x00-\x08\x0b-\x1f\x7f]*)?")
_CONTINUED = re.compile(rb"(?<!\\)(?:\\\\)*\\\r?\Z")
"""The end of a line whose value continues in the next one: an odd number of backslashes."""

_PLAIN_VALUE = re.compile(r"[A-Za-z0-9._/@+-]*")
_OFF = frozenset({"false", "no", "off", "0", ""})

_ANY_KEY = frozenset({"advice", "color", "gui", "branch.*", "url.*"})
"""Sections without any key that could name a program. `.*` stands for a subsection."""

_HARMLESS: dict[str, frozenset[str]] = {
    section: frozenset(keys.split())
    for section, keys in {
        "apply": "ignorewhitespace whitespace",
        "author": "email name",
        "blame": "blankboundary coloring date markignoredlines markunblamablelines showemail showroot",
        "checkout": "defaultremote guess thresholdforparallelism workers",
        "clone": "defaultremotename rejectshallow",
        "column": "branch clean status tag ui",
        "commit": "cleanup gpgsign status verbose",
        "committer": "email name",
        "core": "abbrev autocrlf bare bigfilethreshold checkstat commentchar commitgraph compression"
        " deltabasecachelimit eol filemode fscache fsync fsyncmethod hidedotfiles ignorecase ignorestat"
        " logallrefupdates longpaths loosecompression maxtreedepth multipackindex packedgitlimit"
        " packedgitwindowsize precomposeunicode preloadindex protecthfs protectntfs quotepath"
        " repositoryformatversion safecrlf sharedrepository sparsecheckout sparsecheckoutcone splitindex"
        " sshcommand symlinks trustctime untrackedcache usereplacerefs warnambiguousrefs whitespace",
        "credential": "helper usehttppath username",
        "credential.*": "helper usehttppath username",
        "diff": "algorithm autorefreshindex colormoved colormovedws context indentheuristic interhunkcontext"
        " mnemonicprefix noprefix renamelimit renames statgraphwidth statnamewidth suppressblankempty"
        " wserrorhighlight",
        "diff.*": "algorithm binary funcname wordregex xfuncname",
        "extensions": "compatobjectformat objectformat refstorage relativeworktrees worktreeconfig",
        "feature": "experimental manyfiles",
        "fetch": "all fsckobjects negotiationalgorithm parallel prune prunetags recursesubmodules showforcedupdates"
        " unpacklimit writecommitgraph",
        "gc": "auto autodetach autopacklimit cruftpacks packrefs pruneexpire reflogexpire reflogexpireunreachable"
        " writecommitgraph",
        "gpg": "format",
        "grep": "column extendedregexp fullname linenumber patterntype threads",
        "http": "extraheader lowspeedlimit lowspeedtime postbuffer sslverify version",
        "http.*": "extraheader lowspeedlimit lowspeedtime postbuffer sslverify version",
        "i18n": "commitencoding logoutputencoding",
        "index": "recordendofindexentries recordoffsettable skiphash sparse threads version",
        "init": "defaultbranch",
        "lfs": "locksverify repositoryformatversion",
        "lfs.*": "access locksverify",
        "log": "abbrevcommit date decorate excludedecoration follow graphcolors initialdecorationset mailmap showroot",
        "maintenance": "auto autodetach strategy",
        "merge": "autostash conflictstyle directoryrenames ff log renamelimit renames stat tool verbosity",
        "pack": "threads window windowmemory writebitmaphashcache writereverseindex",
        "pull": "autostash ff octopus rebase twohead",
        "push": "autosetupremote default followtags gpgsign pushoption recursesubmodules useforceifincludes",
        "rebase": "abbreviatecommands autosquash autostash backend forkpoint missingcommitscheck stat updaterefs",
        "receive": "autogc denycurrentbranch denydeletes denynonfastforwards fsckobjects",
        "remote": "pushdefault",
        "remote.*": "fetch followremotehead gh-resolved mirror prune prunetags push pushurl skipdefaultupdate"
        " skipfetchall tagopt url",
        "rerere": "autoupdate enabled",
        "showbranch": "default",
        "stash": "showincludeuntracked showpatch showstat",
        "status": "aheadbehind branch displaycommentprefix relativepaths renamelimit renames short showstash"
        " showuntrackedfiles",
        "submodule": "active fetchjobs",
        "submodule.*": "active branch fetchrecursesubmodules ignore url",
        "tag": "forcesignannotated gpgsign sort",
        "transfer": "fsckobjects hiderefs unpacklimit",
        "user": "email name signingkey useconfigonly",
        "versionsort": "suffix",
        "worktree": "guessremote userelativepaths",
    }.items()
}
"""Keys that name no program for a reading command, with any value. All in lower case."""

_HARMLESS_VALUES: dict[str, frozenset[str]] = {
    "core.fsmonitor": _OFF,
    "diff.submodule": frozenset({"log", "short"}),
    "log.diffmerges": frozenset({"off", "none", "on", "m", "first-parent", "1", "separate", "combined", "c", "cc"}),
    "log.showsignature": _OFF,
    "remote.*.promisor": _OFF,
    "status.submodulesummary": _OFF,
    "submodule.*.update": frozenset({"checkout", "merge", "none", "rebase"}),
    "submodule.recurse": _OFF,
}
"""Keys that name no program with one of these values."""


_RUNS_OUTSIDE_READING = frozenset({"core.sshcommand", "credential.helper", "credential.*.helper"})
"""Keys that name a program, although no reading command runs it."""


UNCLEAR = "a line that is not understood"

FILES_OF = "files of "
"""The beginning of the name of an entry for the files of the work tree that a setting makes git run."""


class GitEntry(Struct, frozen=True, eq=False):
    """A risk: it could make git run a program, or read another repository. File, description, and digest of its
    content. Two entries with these are equal.
    """

    file: Path
    name: str
    digest: str
    shown: str = ""
    """The command, value or place, whole, for the person who decides about it."""

    def _identity(self) -> tuple[Path, str, str]:
        return self.file, self.name, self.digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GitEntry) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


class ConfigLine(Struct, frozen=True):
    """One line of a configuration file: `key` is `section.key` or `section.*.key`, in lower case.

    `name` keeps the original case. `value` is None where the text is not plain; a key without a value is `true`.
    """

    key: str
    name: str
    value: str | None


class SeenFiles:
    """Every file that a judgement depends on, in its state before it was read; also missing files."""

    def __init__(self) -> None:
        self._states: dict[Path, FileState] = {}

    def add(self, path: Path) -> None:
        """Remember the state of a file that is about to be read."""
        self._states.setdefault(path, _file_state(path))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in the order of their reading."""
        return tuple(self._states)

    @property
    def are_unchanged(self) -> bool:
        """True when no file was changed, replaced, created or removed since."""
        return all(_file_state(path) == state for path, state in self._states.items())


def _file_state(path: Path) -> FileState:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return (found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size)


def config_entries(path: Path, git_dir: Path, tree: Path, seen: SeenFiles, depth: int = 0) -> Iterator[GitEntry]:
    """Yield the entries of a configuration file, and of every file that it includes, that could make git run a
    program.
    """
    seen.add(path)
    try:
        content = read_plain(path, MAX_CONFIG_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError):
        yield GitEntry(path, "a configuration that cannot be read", unreadable_digest())
        return
    found: dict[str, list[bytes]] = {}
    unclear: list[bytes] = []
    for line, _, raw in _lines(content):
        if line is None:
            unclear.append(raw)
        elif _is_include(line) and (target := _included_path(path, line)) is not None and depth < _MAX_DEPTH:
            yield from config_entries(target, git_dir, tree, seen, depth + 1)
        elif not (_is_harmless(line) or _names_own_tree(line, git_dir, tree) or _is_ignored(line, path, git_dir)):
            found.setdefault(line.name, []).append(raw)
    shown = {name: [raw.partition(b"=")[2].strip() for raw in lines] for name, lines in found.items()}
    if unclear:
        found[UNCLEAR], shown[UNCLEAR] = [content], unclear
    for name, lines in found.items():
        text = b"\n".join(shown[name]).decode(errors="replace")
        yield GitEntry(path, name, text_digest(name.encode(), *lines), text)
        # Their own entry: a worktree without these files runs nothing, and needs no other trust than the checkout.
        if files := [file for file in _named_files(lines, tree, seen) if _holds_files(file)]:
            yield GitEntry(path, f"{FILES_OF}{name}", text_digest(name.encode(), files_digest(files, tree)))


def _named_files(lines: Iterable[bytes], tree: Path, seen: SeenFiles) -> list[Path]:
    """Return the files of the work tree that values name: what git would run belongs to the digest."""
    found: list[Path] = []
    for raw in lines:
        found += named_code(raw.partition(b"=")[2].decode(errors="replace"), tree)
    for path in found:
        seen.add(path)
        for file in (tree_files(path) or ()) if path.is_dir() else ():
            seen.add(file.parent)
            seen.add(file)
    return found


def _holds_files(path: Path) -> bool:
    return tree_files(path) != [] if path.is_dir() else os.path.lexists(path)


def shared_work_tree(common: Path) -> Path | None:
    """Return the configuration that sets `core.worktree` for every worktree of a repository; None where none does.

    Git ignores the setting of the shared configuration in linked worktrees, unless `extensions.worktreeConfig` is on.
    """
    config = common / "config"
    found = False
    try:
        for line, _, _ in _lines(read_plain(config, MAX_CONFIG_BYTES)):
            found = found or (line is not None and line.key == "core.worktree")
    except (OSError, ValueError):
        return None
    return config if found and not _ignores_shared_work_tree(common) else None


def _ignores_shared_work_tree(common: Path) -> bool:
    """Return True when `extensions.worktreeConfig` is certainly off in this repository."""
    try:
        lines = [line for line, _, _ in _lines(read_plain(common / "config", MAX_CONFIG_BYTES))]
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    named = [line for line in lines if line is not None and line.key == "extensions.worktreeconfig"]
    return None not in lines and all(line.value is not None and line.value.lower() in _OFF for line in named)


def named_work_tree(path: Path) -> str | None:
    """Return the real path of the work tree in a configuration file (`core.worktree`); None where that is unclear."""
    named: str | None = None
    try:
        for line, _, _ in _lines(read_plain(path, MAX_CONFIG_BYTES)):
            if line is None or _is_include(line):
                return None
            if line.key == "core.worktree":
                named = line.value or None
    except (OSError, ValueError):
        return None
    return os.path.realpath(path.parent / named) if named else None


def plain_values(path: Path, keys: Collection[str]) -> dict[str, str]:
    """Return the plain values of these keys in a configuration file, without those of its includes."""
    try:
        lines = [line for line, _, _ in _lines(read_plain(path, MAX_CONFIG_BYTES)) if line is not None]
    except (OSError, ValueError):
        return {}
    return {line.key: line.value for line in lines if line.key in keys and line.value is not None}


def program_settings(content: bytes) -> frozenset[tuple[str, bytes]]:
    """Return the settings of a configuration that may make any git command run a program: names and lines.

    Includes count, as do lines that git may read differently, and all lines of a section with such a head.
    """
    found = set[tuple[str, bytes]]()
    for line, section_title, raw in _lines(content):
        if line is None:
            found.add((section_title or "a line", raw))
        elif line.key in _RUNS_OUTSIDE_READING or not _is_harmless(line):
            found.add((line.name, raw))
    return frozenset(found)


def hash_size(path: Path) -> int:
    """Return how many bytes a hash has in a repository with this configuration; 0 where that is unclear."""
    size = 20
    try:
        for line, _, _ in _lines(read_plain(path, MAX_CONFIG_BYTES)):
            if line is not None and line.key == "extensions.objectformat":
                size = {"sha1": 20, "sha256": 32}.get(line.value or "", 0)
    except FileNotFoundError:
        return 20
    except (OSError, ValueError):
        return 0
    return size


def text_digest(*parts: bytes) -> str:
    """Return one digest of several texts."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def files_digest(paths: Iterable[Path], tree: Path) -> bytes:
    """Return one digest of files and directories; always new when they are more than can be compared."""
    digest = content_digest(paths, tree)
    return (unreadable_digest() if digest == TOO_MUCH else digest).encode()


def unreadable_digest() -> str:
    """Return a digest for an unreadable file: it never matches, so trust in it cannot be stored."""
    return os.urandom(16).hex()


def _lines(content: bytes) -> Iterator[tuple[ConfigLine | None, str, bytes]]:
    """Yield every line that is not blank, with the title of its section and its text.

    The first part is None for a line that git may read differently, for all lines of a section with such a head, and
    for the continuation of a line, which may look like a comment.
    """
    section = section_title = ""
    is_continued = False
    for raw in content.split(b"\n"):
        if not is_continued and _BLANK.fullmatch(raw):
            continue
        if not is_continued and (head := _SECTION.fullmatch(raw)) is not None:
            section, section_title = _section_names(head)
        elif not is_continued and section and (line := _LINE.fullmatch(raw)) is not None:
            yield _config_line(section, section_title, line), section_title, raw
        else:
            yield None, section_title, raw
            is_continued = _CONTINUED.search(raw) is not None
            section = "" if raw.lstrip().startswith(b"[") else section


def _section_names(head: re.Match[bytes]) -> tuple[str, str]:
    """Return the section in lower case, with `.*` for a subsection, and as it is written."""
    written = head[1].decode()
    if head[2] is None:
        return written.lower(), written
    return f"{written.lower()}.*", f"{written}.{head[2].decode(errors='replace')}"


def _config_line(section: str, section_title: str, line: re.Match[bytes]) -> ConfigLine:
    key = line[1].decode()
    return ConfigLine(f"{section}.{key.lower()}", f"{section_title}.{key}", _plain_value(line[2]))


def _plain_value(value: bytes | None) -> str | None:
    if value is None:
        return "true"
    text = value.decode(errors="replace").rstrip(" \t")
    return text if _PLAIN_VALUE.fullmatch(text) else None


def _is_harmless(line: ConfigLine) -> bool:
    section, _, key = line.key.rpartition(".")
    if section in _ANY_KEY or key in _HARMLESS.get(section, ()):
        return True
    fine = _OFF if section == "pager" else _HARMLESS_VALUES.get(line.key, frozenset[str]())
    return line.value is not None and line.value.lower() in fine


def _names_own_tree(line: ConfigLine, git_dir: Path, tree: Path) -> bool:
    return line.key == "core.worktree" and bool(line.value) and os.path.realpath(git_dir / str(line.value)) == str(tree)


def _is_ignored(line: ConfigLine, path: Path, git_dir: Path) -> bool:
    """Return True for the work tree of the main checkout, which git ignores in a linked worktree."""
    common = path.parent
    is_linked = path.name == "config" and git_dir.parent == common / "worktrees"
    return line.key == "core.worktree" and is_linked and _ignores_shared_work_tree(common)


def _is_include(line: ConfigLine) -> bool:
    return line.key in {"include.path", "includeif.*.path"}


def _included_path(path: Path, line: ConfigLine) -> Path | None:
    """Return the file that a line includes, or None where only git knows it."""
    return path.parent / line.value if line.value and line.value != "true" else None
