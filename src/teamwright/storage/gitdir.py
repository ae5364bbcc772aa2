"""Where git keeps a repository, and whether its own configuration could make a reading command run something.

Read from the files, without running git: a repository that nobody trusted yet must not run anything by being looked
at. Formats: gitrepository-layout(5), git-config(1), index-format. Knows nothing of trust.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from teamwright.storage.plain import read_plain

INDEX_MOST = 1 << 30
"""Bytes of an index that are searched; a longer one is taken to hold submodules."""

_SECTIONS = (
    "remote branch user author committer init pull push merge rerere color gui advice fetch status commit tag rebase"
    " maintenance gc pack index feature submodule alias credential lfs apply am format help transfer receive"
    " column checkout clean grep pretty versionsort worktree"
)
_CORE = (
    "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol"
    " safecrlf quotepath untrackedcache abbrev commitgraph compression checkstat trustctime preloadindex"
    " sharedrepository longpaths multipackindex bigfilethreshold whitespace hidedotfiles protecthfs protectntfs"
    " sshcommand editor commentchar"
)
_BENIGN_SECTIONS = frozenset(_SECTIONS.split())
_BENIGN_CORE = frozenset(_CORE.split())
_BENIGN_EXTENSIONS = frozenset(
    {"worktreeconfig", "objectformat", "relativeworktrees", "refstorage", "compatobjectformat"}
)
_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]\s*(.*)')
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_GITLINK = b"\x00\x00\xe0\x00"
"""The mode of a submodule's entry in the index: git looks into these directories with their own configuration."""


def find_git_dir(start: Path) -> tuple[Path, Path] | None:
    """The work tree that holds `start`, and its git directory (a `.git` file is followed); None outside git."""
    here = Path(os.path.realpath(start))
    for directory in (here, *here.parents):
        found = _git_dir_of(directory)
        if found is not None:
            return directory, found
    return None


def common_dir(git_dir: Path) -> Path:
    """The directory that all worktrees of a repository share (`commondir`), by real path."""
    try:
        text = _text(git_dir / "commondir").strip()
    except (OSError, UnicodeDecodeError):
        return Path(os.path.realpath(git_dir))
    return Path(os.path.realpath(os.path.join(git_dir, text)))


def trust_root(start: Path) -> Path:
    """What trust in a repository is bound to: its common directory, or outside git the directory itself.

    A `.git` that only points to somebody else's repository, without being known there, does not share its trust.
    """
    found = find_git_dir(start)
    if found is None:
        return Path(os.path.realpath(start))
    tree, git_dir = found
    return common_dir(git_dir) if _belongs(tree, git_dir) else tree


def work_tree(start: Path) -> Path | None:
    """The root of the work tree that holds `start`, by real path; None outside git."""
    found = find_git_dir(start)
    return None if found is None else found[0]


def branch_of(start: Path) -> str | None:
    """The branch that is checked out; `(detached)`, `(unknown)` when HEAD does not say, None outside git."""
    found = find_git_dir(start)
    if found is None:
        return None
    try:
        head = _text(found[1] / "HEAD").strip()
    except (OSError, UnicodeDecodeError):
        return "(unknown)"
    name = head.removeprefix("ref: refs/heads/")
    if name == head:
        return "(detached)" if _COMMIT.fullmatch(head) else "(unknown)"
    return name if name.isprintable() and not name.startswith(".") else "(unknown)"


def running_entries(start: Path) -> list[tuple[Path, str]]:
    """What in the repository's own configuration could run a program while git only reads: (file, entry).

    Also named: what cannot be judged (an include, an unreadable file, submodules). Empty outside git.
    """
    found = find_git_dir(start)
    if found is None:
        return []
    git_dir, common = found[1], common_dir(found[1])
    files = {common / "config", git_dir / "config.worktree", *_module_configs(common)}
    entries = [(path, entry) for path in sorted(files) for entry in _suspect(path)]
    hook = common / "hooks" / "post-index-change"
    if hook.exists():
        entries.append((hook, "hook post-index-change"))
    index = git_dir / "index"
    if _holds(index, _GITLINK):
        entries.append((index, "submodules"))
    return entries


def _belongs(tree: Path, git_dir: Path) -> bool:
    """Whether the git directory knows this work tree: it lies in it, or points back (worktree, submodule)."""
    dot = tree / ".git"
    if git_dir == tree or (git_dir == dot and not dot.is_symlink()):
        return True
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if os.path.realpath(_text(git_dir / "gitdir").strip()) == os.path.realpath(dot):
            return not dot.is_symlink()
    with contextlib.suppress(OSError, UnicodeDecodeError):
        named = re.search(r"^\s*worktree\s*=\s*(.+?)\s*$", _text(git_dir / "config"), re.MULTILINE)
        return named is not None and os.path.realpath(os.path.join(git_dir, named[1].strip('"'))) == str(tree)
    return False


def _git_dir_of(directory: Path) -> Path | None:
    dot = directory / ".git"
    try:
        if dot.is_dir():
            return dot if (dot / "HEAD").exists() or (dot / "HEAD").is_symlink() else None
        text = _text(dot) if dot.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return None
    if text.startswith("gitdir:"):
        return Path(os.path.realpath(os.path.join(directory, text.removeprefix("gitdir:").strip())))
    bare = all((directory / name).exists() for name in ("HEAD", "objects", "refs"))
    return directory if bare else None


def _module_configs(common: Path) -> list[Path]:
    modules = common / "modules"
    found: list[Path] = []
    if modules.is_dir():
        for directory, _, files in os.walk(modules):
            found += [Path(directory, "config")] if "config" in files and "HEAD" in files else []
    return found[:200]


def _suspect(path: Path) -> list[str]:
    try:
        lines = _text(path).splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError):
        return ["unreadable"]
    found: list[str] = []
    section = ""
    for line in lines:
        if not line.strip() or line.lstrip()[0] in "#;":
            continue
        if (head := _SECTION.match(line)) is not None:
            section = head[1].lower() + (f".{head[2]}" if head[2] is not None else "")
            line = head[3]
            if not line.strip() or line.lstrip()[0] in "#;":
                continue
        key = _KEY.match(line)
        if key is None or line.rstrip().endswith("\\"):
            found.append(f"{section}: a line that is not understood")
        elif not _benign(section, key[1].lower(), (key[2] or "true").split("#")[0].strip().strip('"').lower()):
            found.append(f"{section}.{key[1]}")
    return found


def _benign(section: str, key: str, value: str) -> bool:
    name = section.split(".")[0]
    if section == "core":
        return key in _BENIGN_CORE or (key == "fsmonitor" and value in {"false", "0", "no", "off", ""})
    if section == "extensions":
        return key in _BENIGN_EXTENSIONS
    if section == "log":
        return key != "showsignature"
    if section == "diff":
        return key in {"renames", "algorithm", "context", "colormoved", "mnemonicprefix", "noprefix", "submodule"}
    if name == "remote":
        return key not in {"promisor", "partialclonefilter", "uploadpack", "vcs"}
    return name in _BENIGN_SECTIONS


def _holds(path: Path, needle: bytes) -> bool:
    try:
        return needle in read_plain(path, INDEX_MOST)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _text(path: Path) -> str:
    return read_plain(path).decode("utf-8")
