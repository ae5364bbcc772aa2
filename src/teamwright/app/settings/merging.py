"""Settings in layers: who may say what, and which value holds. Flags above all.

Defaults, the user's files, the repository's, one given with a flag. A repository narrows as it likes; everything
else of it holds only where a person trusted exactly that entry, and some things never. Reads no environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from teamwright.agent.activity import STALLED_AFTER_S
from teamwright.agent.compacting.state import CompactSettings
from teamwright.agent.limits import SpawnSettings
from teamwright.app.checking.settings import CheckSettings
from teamwright.app.members.settings import BACKEND, places_settings
from teamwright.app.serving.said import KEYS as SERVER_KEYS
from teamwright.app.serving.said import ServersSaid
from teamwright.app.settings.files import Layer, Origin, bad_settings, read_layer
from teamwright.app.settings.keys import KEYS
from teamwright.app.settings.model import Flags, Settings
from teamwright.app.shells.settings import bash_settings
from teamwright.app.strangers.settings import commands_settings
from teamwright.app.trust.store import TrustState
from teamwright.app.trust.survey import HOOKS, NARROWING, entry_of, hook_entry, repository_layers
from teamwright.hooks.book import Hook, parse_hooks
from teamwright.permissions.decide import parse_mode
from teamwright.permissions.rule import Rule, parse_rules
from teamwright.permissions.verdict import Mode, Verdict
from teamwright.protocol.budget import NAMES as CAPS
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.storage.paths import Home
from teamwright.teams.agents.ports import AgentSettings
from teamwright.teams.member.settings import TeamSettings

_VERDICTS = {"permissions.allow": Verdict.ALLOW, "permissions.ask": Verdict.ASK, "permissions.deny": Verdict.DENY}
_FOR_MODELS = frozenset(
    {
        "model",
        "effort",
        "thinking",
        "context_tokens",
        "max_output_tokens",
        "retries",
        "stagger_s",
        "stall_s",
        "providers",
        "prices",
    }
)
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(^|_)(API|ACCESS|PRIVATE|AUTH)?_?KEY(_|$|S$)|(^|_)AUTH(_|$)",
    re.IGNORECASE,
)
_ENDPOINT = re.compile(
    r"BASE_?URL|ENDPOINT|(^|_)(URL|URI|HOST|PROXY)$|^(ANTHROPIC|CLAUDE|TEAMWRIGHT|OPENAI|OPENROUTER|OLLAMA|AWS|AZURE)_"
    r"|^(GOOGLE|GEMINI|VERTEX|BEDROCK)_|^(SSL_CERT|REQUESTS_CA|CURL_CA|NODE_EXTRA_CA|NODE_TLS)|^(HOME|USERPROFILE)$|^XDG_"
    # what a shell reads at its start, or takes for a function
    r"|^(BASH_ENV|ENV|ZDOTDIR|FPATH|SHELL|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4])$|^BASH_FUNC_",
    re.IGNORECASE,
)


def lead_mode(text: str, source: str = "--permission-mode") -> Mode:
    """The mode of a lead from its name. Raises UsageError for one that does not exist, or is not for a lead."""
    mode = parse_mode(text, source)
    if mode is Mode.BUBBLE:
        raise UsageError(
            "usage",
            f"{mode} means: as whoever started it, and nobody started the lead",
            looked_at=[("from", source)],
            do=[f"say {Mode.DEFAULT}, or leave it out"],
            note="nothing was changed",
        )
    return mode


def reads_other_product(home: Home, flags: Flags) -> bool:
    """The setting `compat.claude`, which must be known before anything of the other product is looked at."""
    found = True
    for layer in (read_layer(home.settings, Origin.USER), _given(flags)):
        found = bool(layer.values.get("compat.claude", found)) if layer is not None else found
    return found


def load_settings(home: Home, cwd: Path, flags: Flags, trust: TrustState) -> Settings:
    """All layers merged for a run in this directory.

    Raises CannotStart (`bad-settings`) for a file that cannot be read or holds a wrong type, UsageError for a flag.
    A file of a repository that is not trusted is never an error, only a warning.
    """
    compat = reads_other_product(home, flags)
    merge = _Merge(trust)
    for path, origin in _places(home, trust.root, compat):
        layer = merge.read(path, origin)
        if layer is not None:
            merge.layer(layer)
    given = _given(flags)
    if given is not None:
        merge.layer(given)
    merge.flags(flags, cwd)
    return merge.finished(compat)


def _places(home: Home, root: Path, compat: bool) -> list[tuple[Path, Origin]]:
    theirs = Path(os.path.expanduser("~/.claude/settings.json"))
    users = [*([(theirs, Origin.COMPAT_USER)] if compat else []), (home.settings, Origin.USER)]
    known = {os.path.realpath(path) for path, _ in users}
    return users + [place for place in repository_layers(root, compat) if os.path.realpath(place[0]) not in known]


def _given(flags: Flags) -> Layer | None:
    if flags.settings_file is None:
        return None
    layer = read_layer(flags.settings_file, Origin.GIVEN)
    if layer is None:
        raise bad_settings(flags.settings_file, "there is no such file")
    return layer


class _Merge:
    """One merge: layers come from the farthest to the nearest."""

    def __init__(self, trust: TrustState) -> None:
        self.trust = trust
        self.rules: list[Rule] = []
        self.directories: list[Path] = []
        self.env: dict[str, str] = {}
        self.hooks: list[Hook] = []
        self.values: dict[str, Any] = {}
        self.mode = Mode.DEFAULT
        self.delegates = False
        self.skills_off: frozenset[str] = frozenset()
        self.origins: dict[str, str] = {}
        self.warnings: list[str] = []
        self.served = ServersSaid(trust, self.origins, self.warnings)

    def read(self, path: Path, origin: Origin) -> Layer | None:
        try:
            return read_layer(path, origin)
        except CannotStart as problem:
            if not origin.of_repository or self.trust.trusted:
                raise
            self.warnings.append(f"{path}: left out: {problem.what}")
            return None

    def layer(self, layer: Layer) -> None:
        heeded = not layer.origin.of_repository or self.trust.trusted  # of the others one line is said, by the opening
        self.warnings += layer.warnings if heeded else ()
        for name, value in layer.values.items():
            if KEYS[name].user_only and (layer.origin.of_repository or layer.origin.compat):
                self.warnings += [f"{layer.path}: {name} is taken from your own settings only"] if heeded else []
            elif name in _VERDICTS:
                self.add_rules(layer, name, value)
            elif name == "permissions.additionalDirectories":
                self.add_directories(layer, value)
            elif name == "permissions.defaultMode":
                self.set_mode(layer, value)
            elif name == "env":
                self.add_env(layer, value)
            elif name == HOOKS:
                self.add_hooks(layer, value, heeded=heeded)
            elif name in SERVER_KEYS:
                self.served.add(layer, name, value)
            elif name == "skills.disabled":
                self.skills_off |= {one for one in value if self.may(layer, name, one, one)}
            elif self.may(layer, name, "", value):
                self.values[name] = value
                self.origins[name] = str(layer.path)

    def may(self, layer: Layer, name: str, part: str, value: Any) -> bool:
        """Whether this part of this layer holds: a person's own words, narrowing, or trusted as it stands."""
        if not layer.origin.of_repository or name in NARROWING:
            return True
        return self.trust.allows(entry_of(layer, self.trust.root, name, part, value))

    def add_rules(self, layer: Layer, name: str, texts: list[str]) -> None:
        for text in texts:
            if not self.may(layer, name, text, text):
                continue
            try:
                found = parse_rules(
                    [text], _VERDICTS[name], str(layer.path), self.trust.root, by_user=layer.origin.by_user
                )
            except UsageError as problem:
                self.bad_rule(layer, name, problem)
            else:
                self.rules += found
                self.origins[f"{name} {text}"] = str(layer.path)

    def bad_rule(self, layer: Layer, name: str, problem: UsageError) -> None:
        """A rule that forbids must not get lost in silence; one that would allow may, where it is not ours."""
        foreign = layer.origin.of_repository and not self.trust.trusted
        if not foreign and (name in NARROWING or not layer.origin.compat):
            raise bad_settings(layer.path, problem.what, name) from None
        self.warnings.append(f"{layer.path}: left out: {problem.what}")

    def add_directories(self, layer: Layer, paths: list[str]) -> None:
        for path in paths:
            if self.may(layer, "permissions.additionalDirectories", path, path):
                full = os.path.join(self.trust.root, os.path.expanduser(path))
                self.directories.append(Path(os.path.realpath(full)))
                self.origins[f"permissions.additionalDirectories {path}"] = str(layer.path)

    def set_mode(self, layer: Layer, text: str) -> None:
        if not self.may(layer, "permissions.defaultMode", "", text):
            return
        foreign = layer.origin.of_repository or layer.origin.compat
        try:
            mode = lead_mode(text, str(layer.path))
        except UsageError as problem:
            if not foreign:
                raise bad_settings(layer.path, problem.what, "permissions.defaultMode") from None
            self.warnings.append(f"{layer.path}: left out: {problem.what}")
            return
        if mode is Mode.BYPASS and foreign:
            self.warnings.append(f"{layer.path}: the mode {mode} is taken from your own settings only")
            return
        self.take_mode(mode)
        self.origins["permissions.defaultMode"] = str(layer.path)

    def take_mode(self, mode: Mode) -> None:
        """A lead that delegates keeps the mode that was said before: its members follow that one."""
        self.delegates = mode is Mode.DELEGATE
        self.mode = self.mode if self.delegates else mode

    def add_hooks(self, layer: Layer, value: object, *, heeded: bool) -> None:
        """The layer's hooks that hold: of a repository each that was trusted as it stands, with what it runs."""
        hooks, warnings = parse_hooks(value, str(layer.path))
        self.warnings += warnings if heeded else ()
        for hook in hooks:
            if layer.origin.of_repository and not self.trust.allows(hook_entry(layer, self.trust.root, hook)):
                continue
            self.hooks.append(hook)
            self.origins[f"hooks.{hook.event} {hook.command}"] = str(layer.path)

    def add_env(self, layer: Layer, variables: Mapping[str, str]) -> None:
        for name, value in variables.items():
            if not self.may(layer, "env", name, value):
                continue
            if (layer.origin.of_repository or layer.origin.compat) and (_SECRET.search(name) or _ENDPOINT.search(name)):
                self.warnings.append(f"{layer.path}: the variable {name} is taken from your own settings only")
                continue
            self.env[name] = value
            self.origins[f"env {name}"] = str(layer.path)

    def flags(self, flags: Flags, cwd: Path) -> None:
        if flags.only_allowed:
            self.rules = [rule for rule in self.rules if rule.verdict is not Verdict.ALLOW]
            self.directories = []
        if flags.permission_mode is not None:
            self.take_mode(lead_mode(flags.permission_mode))
            self.origins["permissions.defaultMode"] = "--permission-mode"
        for name in ("model", "effort", "plan_approval"):
            if (said := getattr(flags, name)) is not None:
                self.values[name] = said
                self.origins[name] = f"--{name.replace('_', '-')}"
        if flags.backend is not None:
            self.values[BACKEND], self.origins[BACKEND] = flags.backend, "--backend"
        base = Path(os.path.realpath(cwd))
        self.rules += parse_rules(flags.allowed_tools, Verdict.ALLOW, "--allowedTools", base)
        self.rules += parse_rules(flags.disallowed_tools, Verdict.DENY, "--disallowedTools", base)
        self.directories += [Path(os.path.realpath(os.path.join(base, path.expanduser()))) for path in flags.add_dirs]

    def finished(self, compat: bool) -> Settings:
        get = self.values.get
        limits, team, check = SpawnSettings(), TeamSettings(), CheckSettings()
        return Settings(
            rules=tuple(self.rules),
            mode=self.mode,
            delegates=self.delegates,
            directories=_once(self.directories),
            env=self.env,
            hooks=() if get("disableAllHooks") else tuple(self.hooks),
            hooks_off=bool(get("disableAllHooks")),
            mcp=self.served.settings(self.values, compat=compat),
            models={name: value for name, value in self.values.items() if name in _FOR_MODELS},
            limits=SpawnSettings(
                members=get("limits.members", limits.members),
                agents=get("limits.agents", limits.agents),
                spawns=get("limits.spawns", limits.spawns),
                per_minute=get("limits.spawns_per_minute", limits.per_minute),
                depth=get("limits.depth", limits.depth),
            ),
            team=TeamSettings(
                shutdown_objection_s=get("shutdown_objection_s", team.shutdown_objection_s),
                cancel_grace_s=get("cancel_grace_s", team.cancel_grace_s),
                goodbye_s=get("goodbye_s", team.goodbye_s),
                dedupe_names=get("dedupe_names", team.dedupe_names),
            ),
            bash=bash_settings(self.values),
            each=Budget.from_json({name: get(f"budget.agent.{name}") for name in CAPS}),
            agents=_agents(self.values),
            places=places_settings(self.values, self.origins),
            commands=commands_settings(self.values, self.origins),
            check=CheckSettings(get("task_check", "").strip(), get("task_check_timeout_s", check.timeout_s)),
            compact=CompactSettings(get("compact_at", CompactSettings().at)),
            teams=get("teams", True),
            ask_timeout_s=get("ask_timeout_s"),
            headless_asks=get("headless_asks", "deny"),
            lead_answers=get("permissions.leadAnswers", False),
            plan_approval=get("plan_approval", "lead"),
            git_trailer=get("git_trailer", ""),
            retention_days=get("retention_days", 30),
            stalled_after_s=get("stalled_after_s", STALLED_AFTER_S),
            compat=compat,
            skills=get("skills.enabled", True),
            skills_off=frozenset(name.lower().removeprefix("/") for name in self.skills_off),
            warnings=tuple(self.warnings),
            origins=self.origins,
        )


def _agents(values: Mapping[str, Any]) -> AgentSettings:
    usual = AgentSettings()
    return AgentSettings(
        background=values.get("agents.background", usual.background),
        background_after_s=values.get("agents.background_after_s", usual.background_after_s),
        jobs_wait_s=values.get("agents.jobs_wait_s", usual.jobs_wait_s),
        coordinator=values.get("coordinator", usual.coordinator),
        assistant=values.get("assistant", usual.assistant),
        fork=values.get("agents.fork", usual.fork),
    )


def _once(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))
