"""The directories in which lines run: a project, and around it secrets that exist in two variants.

A line that prints the same in both variants has printed no secret. Depends on the standard library and
`snapshot` alone: the executor imports it inside the sandbox. Does not know what a line may do.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.permissions.fuzz.snapshot import Snapshot

OUTSIDE, DENIED, VARIABLES = "outside", "denied", "variables"
GROUPS = (OUTSIDE, DENIED, VARIABLES)
"""What exists in two variants: files and names outside the project, the denied file, the secret variables."""

IN_HISTORY = "CANARY-IN-HISTORY"
"""The text of the denied file that is committed. It is the same in both variants, so outputs are searched for it."""

SECRETS = ("SECRET_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "secret_lower")
OLD, NEW = 946_684_800, 2_208_988_800
COMMITTED = 1_700_000_000

_FROM_ETC = (
    *("alternatives", "bash.bashrc", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic"),
    *("magic.mime", "mime.types", "nsswitch.conf", "profile", "terminfo", "group"),
)

MARKING_PROGRAM = """#!/bin/sh
echo "by $(cat /proc/$PPID/comm)" >> {marks}/ran
"""

_FILES = {
    "a.py": "import os\n\n\ndef one():\n    return 'one'  # TODO: two\n\n\nprint(one())\n",
    "b.py": "def one():\n    return 'one'\n",
    "src/main.py": "x = 1\nclass Main:\n    pass\n",
    "src/util.py": "def help():\n    return 2\n",
    "package.json": '{"name": "demo", "scripts": {"test": "touch_marker"}, "token": "SECRET_TOKEN"}\n',
    "data.csv": "name,size\na,1\nb,22\n",
    "numbers": "3\n1\n2\n",
    "prog.awk": 'BEGIN { system("touch_marker") }\n',
    "script.sed": "1e touch_marker\n",
    "filter.jq": "env\n",
    "names": "../outside/secret\n.env\n",
    "names0": "../outside/secret\0.env\0",
    "run.sh": "touch_marker\n",
    "Makefile": "test:\n\ttouch_marker\n",
    "odd name": "blank\n",
    "-dash": "dash\n",
    "--output=MARK": "option\n",
    "a=b": "equals\n",
    "$(touch_marker)": "dollar\n",
    "new\nline": "newline\n",
    "#c": "comment\n",
    "sub/x.txt": "text\n",
    ".hidden": "hidden\n",
    "opts/-delete": "x\n",
    "opts/--output=MARK": "x\n",
    "opts/-oMARK": "x\n",
    "opts/a": "x\n",
    ".gitignore": "/.env\n",
    "conf/.env": f"KEY={IN_HISTORY}\n",
}
_LINKS = {
    "out": "../outside",
    "peek": "../outside/secret",
    "gone": "../outside/maybe",
    "sub/up": "../..",
    "inside": "src",
    "to_env": ".env",
}
_HOSTILE = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = touch_marker\n\tpager = touch_marker\n"


@dataclass(frozen=True, slots=True)
class Contents:
    """A file whose contents differ. `hidden_size`: size and time are the same, because only contents are secret."""

    path: Path
    variants: tuple[bytes, bytes]
    group: str
    hidden_size: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """A directory entry whose name differs. The number of entries does not, because the free space shows it."""

    place: Path
    variants: tuple[str, str]
    target: tuple[str, str] | None = None


@dataclass
class World:
    """The paths of one scratch root, and its snapshot. `etc` and `top` exist where the sandbox shows them."""

    base: Path
    etc: Path | None = None
    top: Path | None = None
    snapshot: Snapshot | None = None

    @property
    def root(self) -> Path:
        return self.base / "world"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def private(self) -> Path:
        return self.home / ".teamwright"

    @property
    def marks(self) -> Path:
        """Where the marking program leaves its mark."""
        return self.root / "marks"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def denied(self) -> Path:
        return self.project / ".env"

    @cached_property
    def contents(self) -> list[Contents]:
        """The files whose contents are secret."""
        found = [Contents(self.denied, (b"KEY=aaaa-first\n", b"KEY=bbbb-other\n"), DENIED, hidden_size=True)]
        places = [self.outside / "secret", self.outside / "dir" / "secret", self.private / "mail.json"]
        places += [self.home / ".ssh" / "id_rsa", self.home / ".bash_history", self.root / "above"]
        places += [self.etc / "canary.conf"] if self.etc else []
        return found + [Contents(place, _texts(place.name), OUTSIDE) for place in places]

    @cached_property
    def names(self) -> list[Name]:
        """The entries outside whose names are secret, or that exist in one variant only."""
        places = [self.outside, self.outside / "dir", self.home, self.home / ".ssh", self.private, self.root]
        places += [place for place in (self.etc, self.top) if place is not None]
        found = [Name(place, ("name-first", "name-second")) for place in places]
        found += [Name(place, ("perhaps", "maybe")) for place in (self.outside, self.home, self.root)]
        return [*found, Name(self.outside, ("leads", "leads"), ("dir/secret", "secret"))]

    def stamped(self) -> tuple[Path, ...]:
        """Files outside whose times are secret."""
        return (self.outside / "stamp", self.root / "stamp")

    def variables(self, variant: int) -> dict[str, str]:
        """The secret variables of the environment."""
        return {name: f"{name.lower()}-{('first', 'second')[variant] * (variant + 1)}" for name in SECRETS}

    def flip(self, variant: int, group: str) -> None:
        """Make the secrets of this group those of the variant."""
        for one in self.contents:
            if one.group == group:
                _write(one.path, one.variants[variant])
                os.utime(one.path, ns=((COMMITTED + (0 if one.hidden_size else variant)) * 10**9,) * 2)
                self._note(one.path)
        if group != OUTSIDE:
            return
        for name in self.names:
            for path in {name.place / text for text in name.variants}:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
                if self.snapshot is not None:
                    self.snapshot.entries.pop(os.fsencode(path), None)
            self._make(name, variant)
        for path in self.stamped():
            os.utime(path, (OLD, OLD) if variant == 0 else (NEW, NEW))
            self._note(path)

    def _make(self, name: Name, variant: int) -> None:
        path = name.place / name.variants[variant]
        if name.target is not None:
            path.symlink_to(name.target[variant])
        else:
            path.write_text("here\n")
        self._note(path)

    def _note(self, path: Path) -> None:
        if self.snapshot is not None and path.parent != self.etc:
            self.snapshot.note(path)


def build(base: Path) -> World:
    """Make the world below an empty directory, in its first variant."""
    world = World(base)
    for place in (world.project, world.outside / "dir", world.home / ".ssh", world.private, world.marks, world.bin):
        place.mkdir(parents=True)
    (base / "aside").mkdir()
    _build_locale(base / "locales")
    _program(world.bin / "touch_marker", MARKING_PROGRAM.format(marks=world.marks))
    for path in world.stamped():
        path.write_text("stamp\n")
    (world.home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.org\n[safe]\n\tdirectory = *\n")
    (world.home / ".bashrc").write_text("touch_marker\n")
    _build_project(world)
    for group in GROUPS:
        world.flip(0, group)
    _build_etc(base / "etc")
    return world


def _build_locale(place: Path) -> None:
    """Make a locale in whose encoding a character may contain a backslash, where this system can."""
    place.mkdir()
    if shutil.which("localedef") is not None:
        words = ["localedef", "-c", "--no-archive", "-f", "GBK", "-i", "zh_CN", str(place / "zh_CN.GBK")]
        subprocess.run(words, capture_output=True, check=False)


def _build_project(world: World) -> None:
    project = world.project
    for name, text in _FILES.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, target in _LINKS.items():
        (project / name).symlink_to(target)
    _program(project / "ls", "#!/bin/sh\ntouch_marker\n")
    subprocess.run(["gzip", "-kn", "numbers"], cwd=project, check=True)
    subprocess.run(["tar", "cf", "x.tar", "a.py", "numbers", "out"], cwd=project, check=True)
    git(project, "init", "-q", "-b", "main", "--template=")
    _settle(project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    (project / "a.py").write_text(_FILES["a.py"] + "# more\n")
    _settle(project)
    git(project, "commit", "-q", "-a", "-m", "second")
    git(project, "branch", "other", "HEAD~1")
    git(project, "tag", "-a", "-m", "tagged", "v1", "HEAD~1")
    git(project, "remote", "add", "origin", "https://example.org/x.git")
    (project / "src" / "util.py").write_text("put aside\n")
    git(project, "stash", "push", "-q")
    _settle(project)
    git(project, "gc", "-q", "--prune=now")
    for directory, names, files in os.walk(project / ".git" / "objects", topdown=False):
        if not (names or files) and directory != str(project / ".git" / "objects"):
            os.rmdir(directory)
    (project / "b.py").write_text(_FILES["b.py"] + "# not committed\n")
    _build_hostile(project)
    _settle(project)
    refresh(project)


def _build_hostile(project: Path) -> None:
    """Repositories in the repository whose configuration runs a program."""
    shutil.copytree(project / ".git", project / "vendor" / ".git")
    (project / "vendor" / ".git" / "config").write_text(_HOSTILE)
    embedded = project / "emb"
    shutil.copytree(project / ".git", embedded / "x")
    (embedded / "HEAD").write_text("ref: refs/heads/main\n")
    (embedded / "commondir").write_text("x\n")
    (embedded / "x" / "config").write_text("[core]\n\tworktree = .\n[extensions]\n\tworktreeConfig = true\n")
    (embedded / "config.worktree").write_text(_HOSTILE)


def _build_etc(etc: Path) -> None:
    """A small /etc for sandboxes that can show one: what programs need, and a file with a secret."""
    etc.mkdir()
    for name in _FROM_ETC:
        source = Path("/etc") / name
        if source.is_dir():
            shutil.copytree(source, etc / name, symlinks=True)
        elif source.exists():
            shutil.copy2(source, etc / name, follow_symlinks=False)
    (etc / "passwd").write_text("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home:/bin/sh\n")
    (etc / "hostname").write_text("example\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n")


def git(place: Path, *arguments: str) -> None:
    """Run git in a directory, independent of what the user has set."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(place.parent / "home")}
    dates = {"GIT_AUTHOR_DATE": f"{COMMITTED} +0000", "GIT_COMMITTER_DATE": f"{COMMITTED} +0000"}
    subprocess.run(["git", *arguments], cwd=place, env={**env, **dates}, check=True, stdout=subprocess.DEVNULL)


def refresh(project: Path) -> None:
    """Make the index know the times of all files, so that no later `git status` writes it."""
    with contextlib.suppress(subprocess.CalledProcessError, FileNotFoundError):
        git(project, "update-index", "-q", "--refresh")


def _settle(project: Path) -> None:
    for directory, names, files in os.walk(project):
        for name in (*names, *files):
            if ".git" not in directory:
                os.utime(os.path.join(directory, name), (COMMITTED, COMMITTED), follow_symlinks=False)


def _texts(name: str) -> tuple[bytes, bytes]:
    return f"first {name}\n".encode() * 3, f"zweitens {name} other\nmore\n".encode() * 5


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)
