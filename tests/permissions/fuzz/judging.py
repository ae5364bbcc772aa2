"""The judgement: a line that is allowed under a configuration, run in both variants, shows whether that was right.

Depends on the policy, the sandbox and the world. Does not make lines.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Access, Decision, Mode, Verdict
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, HIDDEN_VARIABLES, remove_variables
from teamwright.tools.shell.command_line import expand_command, is_read_otherwise, shell_line, track_directory
from tests.permissions.fuzz.product_runs import FUNCTION, ReadPolicy, start_shell
from tests.permissions.fuzz.sandbox import Outcome, Sandbox
from tests.permissions.fuzz.world import DENIED, GROUPS, IN_HISTORY, OUTSIDE

SHOWS = "shows what is secret"
RUNS = "runs a program"
_REPEATS = 6
_STARTED = re.compile(r"by (bash|xargs|find|timeout|nice|setsid)\b")
"""The marking program was started as a command; what scripts of other languages start is no command of the line."""
_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Configuration:
    """Modes that should agree, with rules. `secret`: the groups whose variants must not be told apart.

    `changes` says what may be changed: `nothing`, `inside` (but guarded files), or all that no rule `denied`.
    `history`: the committed text of a denied file must not be shown; a user's own rule about git may show it.
    """

    name: str
    modes: tuple[Mode, ...]
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ("Read(.env)",)
    secret: frozenset[str] = frozenset(GROUPS)
    changes: str = "nothing"
    history: bool = True


READING = Configuration("reading", (Mode.DEFAULT, Mode.PLAN, Mode.DONT_ASK))
PLAIN = Configuration("plain", (Mode.DEFAULT,), deny=(), secret=frozenset(GROUPS) - {DENIED}, history=False)
"""Without rules: git shows what is in files, which it is asked about as soon as a rule denies one."""
EDITING = Configuration("editing", (Mode.ACCEPT_EDITS,), changes="inside")
RULES = Configuration(
    "rules",
    (Mode.DEFAULT,),
    allow=("Bash(git log:*)", "Bash(git diff:*)", "Bash(git show:*)", "Bash(find:*)", "Bash(sort:*)", "Bash(rg:*)"),
    history=False,
)
BYPASS = Configuration(
    "bypass",
    (Mode.BYPASS,),
    deny=("Bash(touch_marker:*)", "Read(.env)", "Edit(src/**)"),
    secret=frozenset({DENIED}),
    changes="denied",
    history=False,
)
_SCRIPTS = re.compile(r"run\.sh|\bMakefile\b|\bbash\b.* -[a-z]*i")
"""The scripts of the world that run a denied program: two in the project, and the startup file of an interactive shell.
What a script does is not seen, so `bypassPermissions` allows it."""
_WHOLE_DIRECTORIES = re.compile(r"\b[ef]?grep\b.* (-[a-zA-Z]*[rR]|--\S*recurs|\S*recurse)")
"""A search of whole directories, which shows denied files too; see the classes in docs/reference/permissions.md."""

OWN_SHELL = Configuration(
    "own_shell", (Mode.DEFAULT, Mode.ACCEPT_EDITS), allow=(f"Bash({FUNCTION}:*)",), changes="inside"
)
"""Lines that call a function of the user, for `--shell`."""
CONFINED = Configuration("confined", (Mode.BYPASS,), deny=(), secret=frozenset({OUTSIDE, DENIED}), history=False)
"""Every line is allowed and runs in the policy *read*, for `--sandbox-read`."""

CONFIGURATIONS = {one.name: one for one in (READING, PLAIN, EDITING, RULES, BYPASS, OWN_SHELL, CONFINED)}


@dataclass(frozen=True, slots=True)
class Wrong:
    """A wrong allow: the line, where it was allowed and why, and what it did."""

    line: str
    configuration: str
    mode: Mode
    decision: Decision
    effect: str
    detail: str

    def __str__(self) -> str:
        allowed = f"allowed in {self.mode} ({self.decision.rule}: {self.decision.reason})"
        return f"{self.line!r}\n    {allowed}\n    {self.effect}: {self.detail}"


class Judge:
    """Asks for verdicts, runs what is allowed, and finds what was wrong about it.

    `shell`: the kind of the user's shell, `bash` or `zsh`, in which lines run as in a session; empty: plain bash.
    """

    def __init__(self, sandbox: Sandbox, shell: str = "") -> None:
        self.sandbox = sandbox
        self._startup = start_shell(shell, sandbox.base) if shell else None
        self.runs = 0
        self.timed_out = 0
        self._variant = 0
        world = sandbox.world
        scope = PermissionScope((world.project,), private=(world.private,), base=world.project)
        self._policies: dict[tuple[str, Mode], Policy] = {}
        for one in CONFIGURATIONS.values():
            rules = (
                *parse_rules(one.allow, Verdict.ALLOW, "allowing", world.project),
                *parse_rules(one.deny, Verdict.DENY, "denying", world.project),
            )
            self._policies |= {(one.name, mode): Policy(mode, rules, scope) for mode in one.modes}
        own = {"PATH": f"{world.bin}:{_PATH}", "HOME": str(world.home), "USER": "user", "LOGNAME": "user"}
        seen = remove_variables(HIDDEN_VARIABLES, {**own, "LANG": "C.UTF-8", "SHELL": "/bin/bash"})
        seen["LOCPATH"] = str(self.sandbox.base / "locales")
        self._env = {**seen, **COMMAND_ENVIRONMENT, "PWD": str(world.project)}
        self._read_policy = ReadPolicy(world, self._env) if sandbox.is_nested else None

    def allowed(self, line: str, configuration: Configuration) -> tuple[Mode, Decision] | None:
        """The first mode of the configuration that allows the line, with its decision."""
        if configuration is CONFINED:
            return Mode.BYPASS, Decision(Verdict.ALLOW, "confined", "The sandbox decides.")
        project = self.sandbox.world.project
        access = Access(
            command=line,
            cwd=project,
            expanded_command=expand_command(line, self._startup, project),
            is_read_otherwise=is_read_otherwise(line, self._startup, project),
        )
        with contextlib.chdir(self.sandbox.world.project):  # as a session: `/proc/self/cwd` of both is the same here
            for mode in configuration.modes:
                decision = self._policies[configuration.name, mode].decide("Bash", access)
                if decision.verdict is Verdict.ALLOW:
                    return mode, decision
        return None

    def judge(self, line: str, configuration: Configuration) -> Wrong | None:
        """Run a line if it is allowed; what was wrong about that, or None. Check `allowed` first to count."""
        found = self.allowed(line, configuration)
        if found is None:
            return None
        effect = self._effect(line, configuration)
        if effect is None or (configuration is BYPASS and _is_documented(line, effect[0])):
            return None
        return Wrong(line, configuration.name, *found, *effect)

    def _effect(self, line: str, configuration: Configuration) -> tuple[str, str] | None:
        self._variant = 1 - self._variant  # the secrets are changed once a line, not twice
        one = self._run(line, configuration.secret, 1 - self._variant)
        effect = next(self._changed(one, configuration), None) or _shown(one, configuration)
        if effect is not None:
            return effect
        other = self._run(line, configuration.secret, self._variant)
        if self._same(one, other):
            return next(self._changed(other, configuration), None)
        first, second = (one, other) if self._variant else (other, one)
        for turn in range(_REPEATS):  # the time, the order of runs and other accidents do not repeat themselves
            for variant in (turn % 2, 1 - turn % 2):
                if not self._same((first, second)[variant], self._run(line, configuration.secret, variant)):
                    return None
        return SHOWS, self._difference(first, second)

    def suspects(self, lines: Sequence[str], configuration: Configuration) -> list[str]:
        """Run allowed lines together; return those which `judge` has to run alone, one by one.

        Those are the lines whose output depends on the variant, and all lines when it is not known what each did.
        """
        self._variant = 1 - self._variant
        one = self._run_together(lines, configuration.secret, 1 - self._variant)
        other = self._run_together(lines, configuration.secret, self._variant) if one is not None else None
        if one is None or other is None:
            return list(lines)
        history = [configuration.history and IN_HISTORY.encode() in printed for printed in one]
        outputs = zip(lines, one, other, history, strict=True)
        return [line for line, first, second, shown in outputs if shown or sorted(first) != sorted(second)]

    def group_of(self, wrong: Wrong) -> str:
        """Which group of secrets decides what the line prints."""
        groups = sorted(CONFIGURATIONS[wrong.configuration].secret) if wrong.effect == SHOWS else []
        for group in groups:
            alone = frozenset({group})
            if not self._same(self._run(wrong.line, alone, 0), self._run(wrong.line, alone, 1)):
                return group
        return ""

    def _same(self, one: Outcome, other: Outcome) -> bool:
        if one.timed_out or other.timed_out:
            return True
        return _plain(one) == _plain(other) and self._told(one) == self._told(other)

    def _told(self, outcome: Outcome) -> dict[str, str]:
        """The changes of what is not secret itself: a secret in another file would be one that was copied."""
        secret = {str(one.path) for one in self.sandbox.world.contents}
        return {path: what for path, what in outcome.changes.items() if path not in secret}

    def _difference(self, one: Outcome, other: Outcome) -> str:
        if one.output != other.output:
            lines = [line for line in one.output.splitlines() if line not in other.output.splitlines()]
            lines += [line for line in other.output.splitlines() if line not in one.output.splitlines()]
            return f"prints {b' / '.join(lines[:2])[:300]!r}"
        if one.code != other.code:
            return f"ends with {one.code} or {other.code}"
        return f"changes {sorted(set(self._told(one).items()) ^ set(self._told(other).items()))[:2]!r}"[:400]

    def _run(self, line: str, groups: frozenset[str], variant: int, commands: int = 1) -> Outcome:
        put = shell_line(line, self._startup, self.sandbox.world.project, self._env)
        if self._read_policy is not None:
            argv, env = self._read_policy.argv(put.argv, put.env)
        else:
            put = track_directory(put, self.sandbox.base / "aside" / "ended_in")
            argv, env = put.argv, put.env
        outcome = self.sandbox.run(argv, env, groups, variant, commands)
        self.runs += commands
        self.timed_out += outcome.timed_out
        return outcome

    def _run_together(self, lines: Sequence[str], groups: frozenset[str], variant: int) -> list[bytes] | None:
        """Return what each line printed, with its code, when each runs in a subshell of one shell.

        None when something was changed, or when it is not certain which line printed what.
        """
        mark = secrets.token_hex(8)
        text = "".join(f"(eval {shlex.quote(line)}\n)\nprintf '%s %s\\n' {mark} $?\n" for line in lines)
        outcome = self._run(text, groups, variant, len(lines))
        printed = re.split(mark.encode() + rb" (\d+)\n", outcome.output)
        if outcome.timed_out or outcome.changes or len(printed) != 2 * len(lines) + 1:
            return None
        return [printed[at] + printed[at + 1] for at in range(0, 2 * len(lines), 2)]

    def _changed(self, outcome: Outcome, configuration: Configuration) -> Iterator[tuple[str, str]]:
        world = self.sandbox.world
        for path, what in outcome.changes.items():
            inside = path.startswith(f"{world.project}/")
            if configuration.changes == "denied":
                wrong = path.startswith(f"{world.project}/src/") or _STARTED.search(what) is not None
            else:
                wrong = configuration.changes == "nothing" or not inside or _is_guarded(path, str(world.project))
            if wrong:
                ran = path.startswith(f"{world.marks}/")
                yield (RUNS if ran else "changes a file"), f"{os.path.relpath(path, world.root)} {what}"


def _is_documented(line: str, effect: str) -> bool:
    """Return True for an effect of a class that deny rules do not prevent, as docs/reference/permissions.md says."""
    known = {RUNS: _SCRIPTS, SHOWS: _WHOLE_DIRECTORIES}.get(effect)
    return known is not None and known.search(line) is not None


def _is_guarded(path: str, project: str) -> bool:
    parts = os.path.relpath(path, project).split("/")
    return parts[0] in {".git", ".claude", ".teamwright", ".vscode"} or ".git" in parts


def _shown(outcome: Outcome, configuration: Configuration) -> tuple[str, str] | None:
    if configuration.history and IN_HISTORY.encode() in outcome.output:
        return f"{SHOWS} (history)", repr(outcome.output[:300])
    return None


def _plain(outcome: Outcome) -> tuple[list[int], int]:
    """What it printed and its code; two processes may print in any order, also in the middle of a line."""
    return sorted(outcome.output), outcome.code
