"""How the product runs the lines of the fuzz: in a user's shell with options, or in the sandbox's policy *read*.

Depends on the tools' shell and the product's sandbox. Makes no lines and judges nothing.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL

from teamwright.processes.commands import ProcessStart
from teamwright.sandbox.bubblewrap import Bubblewrap, probe_bubblewrap
from teamwright.sandbox.command_policy import ConfinementRequest, SandboxPaths, make_policy
from teamwright.sandbox.landlock import filter_program
from teamwright.sandbox.policy import PolicyName
from teamwright.tools.shell.startup import ShellStartup, user_shell
from tests.permissions.fuzz.world import World

FUNCTION = "build"
"""A function of the user, which a rule allows: a line that calls it runs in the user's shell."""

_OPTIONS = {
    "bash": "shopt -s cdable_vars dotglob extglob globstar lastpipe nocaseglob nullglob",
    "zsh": "setopt cdablevars dotglob extendedglob globstarshort globsubst ksharrays magicequalsubst nullglob",
}
_FRAMES = (
    *("{}", "build; {}", "build; {}", "build && {}", "{}; build", "{} | build", "build | {}", "build\n{}", "build {}"),
    *("cd sub; build; {}", "x='{}'; build; $x", "build > /dev/null; {}", "if build; then {}; fi", "X=1 build; {}"),
)
_WORDS = (
    *("'path[$(touch_marker)]'", ".env#", "~HOME/.ssh/id_rsa", "'@(.env)'", "x='@(.env)'; cat $x", "conf/*", ".E*"),
    *(
        "*(e:touch_marker:)",
        "$~x",
        "=cat",
        "<1-9>",
        "${(e)x}",
        "printf %d 'path[$(touch_marker)]'",
        "cd HOME; cat .ssh/*",
    ),
    *("cat conf/.env#", "cat (.env)", "cat ^a.py", "cat **/.env", "x=.env#; cat $x", "exit 'path[$(touch_marker)]'"),
    *(
        "true | cd sub; cat up/above",
        "test -t 'path[$(touch_marker)]'",
        "cat [.]env",
        "cat {conf/*,}",
        "cat --x=~/.ssh/*",
    ),
)
"""Text that a shell other than bash, or with other options, reads in another way."""


def framed(line: str, pick: random.Random) -> str:
    """Return the line beside a call of the user's function, at times with a word that shells read differently."""
    if pick.random() < 0.4:
        words = line.split(" ")
        words.insert(pick.randrange(len(words) + 1), pick.choice(_WORDS))
        line = " ".join(words)
    return pick.choice(_FRAMES).replace("{}", line)


def start_shell(kind: str, base: Path) -> ShellStartup:
    """Return the startup of a user who has this shell, with options and a function. Its files are below `base`."""
    home = base / "aside" / "startup"
    home.mkdir()
    (home / {"bash": ".bashrc", "zsh": ".zshrc"}[kind]).write_text(
        f"{FUNCTION}() {{ echo built; }}\n{_OPTIONS[kind]}\n"
    )
    shell = user_shell(shutil.which(kind) or kind, {})
    failures: list[str] = []
    env = {"HOME": str(home), "PATH": os.defpath}
    startup = ShellStartup(shell, base / "aside" / "snapshot.sh", lambda: env, failures.append, timeout_s=60.0)
    asyncio.run(startup.ensure_ready())
    if failures or startup.snapshot is None or FUNCTION not in startup.snapshot.functions:
        raise RuntimeError(f"{kind} has no startup here: {failures}")
    return startup


class ReadPolicy:
    """The product's bubblewrap with the policy *read* of a session in the project, where a rule denies `.env`."""

    def __init__(self, world: World, env: Mapping[str, str]) -> None:
        abilities = probe_bubblewrap(shutil.which("bwrap") or "bwrap")
        if abilities is None:
            raise RuntimeError("bubblewrap cannot confine commands here")
        temporary = world.base / "aside" / "tmp"
        place = SandboxPaths(str(world.home), (str(world.private),), (), str(temporary), env)
        denied = (str(world.denied), str(world.project / "conf" / ".env"))
        policy = make_policy(ConfinementRequest(PolicyName.READ, (world.project,), denied=denied), place)
        self._made = Bubblewrap(abilities, policy)
        self._world = world
        self._options, self._filter = world.base / "aside" / "options", world.base / "aside" / "filter"
        self._filter.write_bytes(filter_program(self._made.filter_choice()))

    def argv(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the confined command and its environment. Options and filter are files, opened by a shell."""
        start = ProcessStart(tuple(argv), self._world.project, dict(env), DEVNULL, DEVNULL, DEVNULL)
        self._options.write_bytes("\0".join(self._made.options(start)).encode() + b"\0")
        program = f'exec bwrap --args 8 --seccomp 9 -- "$@" 8<{self._options} 9<{self._filter}'
        return ("/bin/sh", "-c", program, "sh", *argv), self._made.environment(start)
