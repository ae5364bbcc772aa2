"""Commands that run other commands, and the commands that they would run.

`sudo`, `env`, `xargs`, `timeout`, `bash -c`, `eval`, `find -exec` and the like. Depends on the proof of find only. The
inner command is judged like any other, so a rule for `git push` also applies to `timeout 5 git push`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from teamwright.shell_lines.command_words import Words, base_name, parse_rows
from teamwright.shell_lines.evaluated_text import EVALUATING_BUILTINS, SHELLS, unwrap_shell, unwrap_su
from teamwright.shell_lines.programs.file_reads import find_files_read
from teamwright.shell_lines.wrapped_commands import ANYTHING, WrappedCommands, any_later_word, unwrap_git


class _Wrapper(Struct, frozen=True):
    """Options that take a value, words before the command, and `clear`: the wrapper does nothing else."""

    short: str = ""
    flags: str = ""
    positional: int = 0
    clear: bool = True
    more: bool = False  # the command gets further words that are not in the line
    shell: bool = False  # without a command it starts a shell with unknown input
    assigns: bool = False  # variables may come before the command


_WRAPPERS = {
    "command": _Wrapper(flags="p"),
    "builtin": _Wrapper(),
    "exec": _Wrapper(short="a", flags="cl", clear=False),
    "nohup": _Wrapper(),
    "noglob": _Wrapper(),
    "nocorrect": _Wrapper(),
    "time": _Wrapper(flags="p"),
    "nice": _Wrapper(short="n"),
    "ionice": _Wrapper(short="cn", flags="t"),
    "setsid": _Wrapper(flags="fw"),
    "stdbuf": _Wrapper(short="ioe"),
    "timeout": _Wrapper(short="ks", flags="v", positional=1),
    "xargs": _Wrapper(short="InPLsdE", flags="0rtx", more=True),
    "sudo": _Wrapper(short="ugpCrtTUhRD", flags="AbEHinPsSkK", clear=False, shell=True, assigns=True),
    "doas": _Wrapper(short="uC", flags="Lns", clear=False, shell=True),
    "chroot": _Wrapper(positional=1, clear=False, shell=True),
    "flock": _Wrapper(short="wE", flags="sxneouF", positional=1, clear=False),
    "strace": _Wrapper(short="eopsPuE", flags="fvqtTcC", clear=False),
    "parallel": _Wrapper(short="jnI", flags="k", clear=False, more=True),
    "busybox": _Wrapper(clear=False),
    "unshare": _Wrapper(flags="rmnpuif", clear=False, shell=True),
    "taskset": _Wrapper(positional=1),
    "chrt": _Wrapper(flags="bfior", positional=1, clear=False),
    "entr": _Wrapper(flags="acdnprsxz", clear=False, more=True),
    "pkexec": _Wrapper(clear=False, shell=True),
    "systemd-run": _Wrapper(clear=False, shell=True),
    "firejail": _Wrapper(clear=False, shell=True),
    "bwrap": _Wrapper(clear=False),
    "npx": _Wrapper(clear=False),
    "ltrace": _Wrapper(short="eopsu", flags="cfiSr", clear=False),
    "valgrind": _Wrapper(clear=False),
    "xvfb-run": _Wrapper(flags="a", clear=False),
    "catchsegv": _Wrapper(clear=False),
    "caffeinate": _Wrapper(short="tw", flags="dims", clear=False),
    "unbuffer": _Wrapper(flags="p", clear=False),
    "script": _Wrapper(clear=False),
    "not": _Wrapper(clear=False),
    "and": _Wrapper(clear=False),
    "or": _Wrapper(clear=False),
    "begin": _Wrapper(clear=False),
}
_LAUNCHERS = parse_rows("""
prlimit
setarch
linux32
linux64
i386
x86_64
numactl
setpriv
runuser
runcon
nsenter
sg
cgexec
faketime
fakeroot
proot
torsocks
proxychains
proxychains4
eatmydata
cpulimit
trickle
dbus-run-session
rlwrap
setuidgid
chpst
start-stop-daemon
daemonize
daemon
hyperfine
toybox
coreutils
capsh
aa-exec
envdir
softlimit
setlock
chronic
ifne
pee
mispipe
lckdo
timelimit
sem
gdb
lldb
rr
systemd-inhibit
systemd-nspawn
dbus-launch
fakechroot
torify
tsocks
nodemon
watchexec
watchman-make
dotenv
dotenvx
cross-env
env-cmd
concurrently
run0
gosu
su-exec
tini
dumb-init
s6-setuidgid
sandbox-exec
arch
expect
tmux
screen
nix-shell
pnpx
choom
ssh-agent
ld.so
ld-linux.so.2
ld-linux-x86-64.so.2
ld-linux-aarch64.so.1
cmake env chdir time
uvx
bunx
npm exec x explore
yarn exec dlx
op run
doppler run
aws-vault exec
chamber exec
sops exec-env exec-file
nix run develop shell
guix shell
rbenv exec
pyenv exec
nodenv exec
nvm exec
fnm exec
volta run
rtx exec x
rustup run
opam exec
stack exec
cabal exec
meson devenv
bazel run
foreman run
honcho run
distrobox enter
toolbox run
flatpak run
tox exec e
pipx run
pixi run
micromamba run
pnpm exec dlx
bun x
uv run
poetry run
pipenv run
pdm run
hatch run
rye run
conda run
mamba run
bundle exec
mise exec x
asdf exec
direnv exec
perf record stat trace
docker exec
podman exec
docker-compose exec run
kubectl exec
""")
"""Programs that run some of their words after options of their own, and the subcommands with which they do."""

_PARALLEL_INPUT = frozenset({":::", "::::", ":::+", "::::+"})
"""Words of parallel before the words that it gives to the command, one or more at a time."""

_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")


def unwrap(words: Words) -> WrappedCommands | None:
    """Return the commands that this one would run, or None when it is no wrapper."""
    name = base_name(words[0]) if words else None
    if name is None:
        return None
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words)
    wrapper = _WRAPPERS.get(name)
    return _unwrap_options(words, wrapper) if wrapper is not None else _unwrap_launcher(name, words)


def starts_anything(words: Sequence[str]) -> bool:
    """Return True for the words of a program, with its subcommand, that runs its further words: `uv run`, `bunx`."""
    name, *rest = words
    if (wrapper := _WRAPPERS.get(base_name(name) or "")) is not None:
        return not wrapper.clear and not rest
    subcommands = _LAUNCHERS.get(base_name(name) or "")
    if subcommands is None:
        return False
    return rest[-1] in subcommands.split() if rest else not subcommands


def _unwrap_launcher(name: str, words: Words) -> WrappedCommands | None:
    """Return all later words as possible commands: only deny rules consider them."""
    subcommands = _LAUNCHERS.get(name)
    if subcommands is None:
        return None
    starts = (at for at, word in enumerate(words) if word in subcommands.split())
    start = next(starts, len(words)) if subcommands else 0
    found = any_later_word(words[start:])
    commands = tuple(command for command in found.commands if command[0] is not None)
    return WrappedCommands(commands, found.script, forbids=True) if commands else None


def _unwrap_options(words: Words, wrapper: _Wrapper) -> WrappedCommands | None:
    is_parallel = words[0] == "parallel"
    if words[0] == "command" and len(words) > 1 and words[1] in {"-v", "-V"}:
        return None  # it only prints the path of a program
    if is_parallel:
        words = words[: next((at for at, word in enumerate(words) if word in _PARALLEL_INPUT), len(words))]
    start = _after_options(words, wrapper)
    if start is None:
        return (
            any_later_word(_with_unknown_arguments(words, len(words)), more=(None,))
            if wrapper.more
            else any_later_word(words)
        )
    start += wrapper.positional
    variables: list[str] = []
    while wrapper.assigns and start < len(words) and (found := _ASSIGNMENT.match(words[start] or "")):
        variables.append(found[1])
        start += 1
    if is_parallel and (start >= len(words) or any(word and " " in word for word in words[start:])):
        return ANYTHING  # its input has the commands, or a shell gets a text with the input in it
    if start >= len(words):
        return ANYTHING if wrapper.shell else None
    if words[start] in {"-c", "--command"}:  # `flock FILE -c TEXT`
        text = words[start + 1] if start + 1 < len(words) else None
        return ANYTHING if text is None else WrappedCommands(script=text)
    tail = (*_with_unknown_arguments(words, start)[start:], None) if wrapper.more else words[start:]
    return WrappedCommands((tail,), variables=tuple(variables), clear=wrapper.clear)


def _with_unknown_arguments(words: Words, start: int) -> Words:
    """Return the words with those marked unknown that get input: `xargs -I X sh -c X`, `parallel echo {1}`."""
    marks = {"{"}
    for at, word in enumerate(words[:start]):
        if word is not None and word.startswith(("-I", "-i", "-J", "--replace")):
            after = words[at + 1] if at + 1 < len(words) else None
            marks.add(word[2:] if word[1] != "-" and len(word) > 2 else word.partition("=")[2] or after or "{")
    return tuple(None if word is not None and any(mark in word for mark in marks) else word for word in words)


def _after_options(words: Words, wrapper: _Wrapper) -> int | None:
    """Return the start of the command; None when an option is not known."""
    at = 1
    while at < len(words):
        word = words[at]
        if word is None:
            return None
        if word == "--":
            return at + 1
        if not word.startswith("-") or word == "-":
            return at
        letters = word[1:]
        if letters[0] in wrapper.short:
            at += 1 if len(letters) > 1 else 2
        elif all(letter in wrapper.flags for letter in letters) or (wrapper.short == "n" and letters.isdigit()):
            at += 1
        else:
            return None
    return at


def _env(words: Words) -> WrappedCommands | None:
    values: list[tuple[str, str]] = []
    unset: list[str] = []
    opaque = False
    at = 1
    while at < len(words):
        word = words[at]
        if word is None:
            return any_later_word(words)
        name, is_assignment, value = word.partition("=")
        if word in {"-i", "-", "--ignore-environment", "-0"}:
            at += 1
        elif word in {"-u", "--unset"}:
            unset.append(words[at + 1] or "?" if at + 1 < len(words) else "?")
            at += 2
        elif word.startswith("-") and word != "--":
            return _split_by_env(words, at, word)
        elif is_assignment:
            values.append((name, value))
            opaque = opaque or name.startswith("BASH_FUNC_") or value.startswith("()")  # bash takes it for a function
            at += 1
        else:
            rest = words[at + 1 if word == "--" else at :]
            if word == "--" and rest and "=" in (rest[0] or "="):
                return any_later_word(words)
            variables = (*unset, *(name for name, _ in values))
            return (
                WrappedCommands((rest,), variables=variables, clear=True, opaque=opaque, values=tuple(values))
                if rest
                else None
            )
    return None


def _split_by_env(words: Words, at: int, option: str) -> WrappedCommands | None:
    """Return the command of `env -S TEXT`, whose text is several words and options; None for unknown options."""
    name, joined, value = option.partition("=")
    rest = words[at + 1 :]
    if name.startswith("--s") and joined:
        text: str | None = value
    elif name.startswith("--s") or (option[1] != "-" and option.endswith("S") and option.count("S") == 1):
        text, rest = (rest[0], rest[1:]) if rest else (None, ())
    elif option[1] != "-" and "S" in option:
        text = option.partition("S")[2]
    else:
        return any_later_word(words)
    if text is None or set(text) & set("\\$`"):
        return ANYTHING
    try:
        found = _env(("env", *shlex.split(text), *rest))
    except ValueError:
        return ANYTHING
    return None if found is None else replace(found, variables=("?", *found.variables), clear=False)


def _watch(words: Words) -> WrappedCommands | None:
    """Return its text, which a shell runs."""
    start = _after_options(words, _Wrapper(short="n", flags="bcdegtx"))
    if start is None:
        return any_later_word(words)
    whole = [word for word in words[start:] if word is not None]
    return WrappedCommands(script=" ".join(whole)) if len(whole) == len(words) - start else ANYTHING


def _runs_command(word: str | None) -> bool:
    """Return True for `-exec` and the like, also for a pattern that a file of such a name matches."""
    return word in _FIND_RUNS or (word is not None and any(fnmatchcase(name, word) for name in _FIND_RUNS))


def _find(words: Words) -> WrappedCommands | None:
    found: list[Words] = []
    at = 1
    while at < len(words):
        if _runs_command(words[at]):
            end = next((i for i in range(at + 1, len(words)) if words[i] in {";", "+"}), len(words))
            found.append(tuple(None if word and "{}" in word else word for word in words[at + 1 : end]))
            at = end
        elif words[0] in {"fd", "fdfind"} and words[at] in {"-x", "-X", "--exec", "--exec-batch"}:
            found.append((*words[at + 1 :], None))
            break
        at += 1
    args = [word for word in words[1:] if word is not None]
    proven = words[0] == "find" and len(args) == len(words) - 1 and find_files_read("find", args) is not None
    return WrappedCommands(tuple(words for words in found if words), forbids=proven) if found else None


_SPECIAL: dict[str, Callable[[Words], WrappedCommands | None]] = {
    **EVALUATING_BUILTINS,
    **dict.fromkeys(SHELLS, unwrap_shell),
    "su": unwrap_su,
    "env": _env,
    "find": _find,
    "fd": _find,
    "fdfind": _find,
    "git": unwrap_git,
    "watch": _watch,
}
