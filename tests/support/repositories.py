"""Git repositories for tests: a scratch repository with one commit, and calls of git in it."""

import os
import subprocess
from pathlib import Path

ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(place: Path, *args: str) -> str:
    """Run git in this directory; return its output without the last newline."""
    done = subprocess.run(["git", *args], cwd=place, env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
    return done.stdout.rstrip("\n")


def make_repository(place: Path, files: dict[str, str] | None = None) -> Path:
    """Create a repository with one commit of these files."""
    place.mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    write_files(place, files or {"a.txt": "one\n", ".gitignore": "*.local\nbuild/\n"})
    commit(place, "first")
    return Path(os.path.realpath(place))


def write_files(place: Path, files: dict[str, str]) -> None:
    """Write these files below a directory."""
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def commit(place: Path, message: str, files: dict[str, str] | None = None) -> str:
    """Write files, commit everything and return the commit's id."""
    write_files(place, files or {})
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", message)
    return git(place, "rev-parse", "HEAD")
