"""Programs that some tests run, how a test says that it needs one, and the summary of the tests that lack one."""

import re
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest

PACKAGES = {
    "bash": "bash",
    "busybox": "busybox",
    "bwrap": "bubblewrap",
    "chromium": "chromium",
    "curl": "curl",
    "dbus-daemon": "dbus-daemon",
    "fish": "fish",
    "git-lfs": "git-lfs",
    "gpg": "gpg",
    "gpg-agent": "gpg-agent",
    "localedef": "libc-bin",
    "make": "make",
    "node": "nodejs",
    "npm": "npm",
    "openssl": "openssl",
    "pgbouncer": "pgbouncer",
    "postgres": "postgresql",
    "ps": "procps",
    "rg": "ripgrep",
    "screen": "screen",
    "setpriv": "util-linux",
    "ssh": "openssh-client",
    "ssh-agent": "openssh-client",
    "ssh-keygen": "openssh-client",
    "strace": "strace",
    "time": "time",
    "tmux": "tmux",
    "unshare": "util-linux",
    "zsh": "zsh",
}
"""The Debian package of each program."""

_REASON = re.compile(rf"\b({'|'.join(PACKAGES)}) is not installed")


def reason(program: str) -> str:
    """Return why a test is skipped that needs this program; `summary` finds the program in it.

    Raises KeyError for a program without a package, which `summary` could not name.
    """
    PACKAGES[program]
    return f"{program} is not installed"


def needs(program: str) -> pytest.MarkDecorator:
    """Return the mark of a test that is skipped without this program."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason(program))


def require(program: str) -> str:
    """Return the path of a program; skip the test when the program is not installed."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(reason(program))
    return path


def summary(reasons: Iterable[str]) -> str:
    """Return one line about the tests that were skipped for want of a program; empty when there are none."""
    counts = Counter(found[1] for one in reasons if (found := _REASON.search(one)))
    if not counts:
        return ""
    missing = ", ".join(f"{program} ({count})" for program, count in sorted(counts.items()))
    install = " ".join(sorted({PACKAGES[program] for program in counts}))
    return f"not tried: {counts.total()} tests, which need {missing}. To try them: apt-get install {install}"
