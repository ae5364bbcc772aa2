"""The merge of settings layers: which file may set which key, which value is used, and the permission policy of a run.

The layers are defaults, the user's files, the repository's files, and the file of a flag; flags come first. A
repository can always restrict; any other entry of it needs a person's trust in exactly this entry, and some are never
used. The environment is not read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from teamwright.config.executed_file_digests import bind_hook
from teamwright.config.files_executed_by_settings import NOTHING_FURTHER, FurtherPrograms, files_run_by
from teamwright.config.mcp_settings import KEYS as SERVER_KEYS
from teamwright.config.mcp_settings import McpSettingsReader
from teamwright.config.repository_programs import hook_files
from teamwright.config.settings.files import (
    SettingsLayer,
    SettingsOrigin,
    bad_settings,
    is_other_product_variable,
    is_user_only_variable,
    read_given_layer,
    read_layer,
)
from teamwright.config.settings.keys import MODE, setting_keys
from teamwright.config.settings.sections import BACKEND, make_sections
from teamwright.config.settings.setting_parts import SettingParts
from teamwright.config.settings.settings import SettingFlags, Settings
from teamwright.config.trust import TrustState
from teamwright.config.trust_entries import HOOKS, entry_of, hook_entry, repository_layers
from teamwright.config.unmatched_guards import find_dead_hook, find_dead_rule
from teamwright.hooks.hook_definitions import HookSpec, parse_hook_entries
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.executed_files import merge_run_files
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import AUTO_NOTICE, Mode, Verdict, parse_mode
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.sandbox.temporary_files import TemporaryFiles
from teamwright.storage.paths import Home, client_root


def load_settings(home: Home, cwd: Path, flags: SettingFlags, trust: TrustState) -> Settings:
    """Return all layers merged for a run in this directory.

    Raises CannotStart (`bad-settings`) for a file that cannot be read or holds a wrong type, UsageError for a flag. A
    file of a repository that is not trusted is never an error, only a warning.
    """
    compat = reads_other_product(home, flags)
    merge = SettingsMerge(trust)
    merge.files(home, flags, compat)
    merge.flags(flags, cwd)
    return merge.settings(compat)


def make_policy(
    settings: Settings,
    home: Home,
    cwd: Path,
    trust: TrustState,
    own: tuple[Path, ...] = (),
    temporary: TemporaryFiles | None = None,
    *,
    further: FurtherPrograms = NOTHING_FURTHER,
) -> Policy:
    """Return the policy of a run in this directory. `own` are directories of the state root that its agents may read.

    `temporary` are the session's temporary files, `further` what agent types and plugins run.
    """
    trusted = [entry.runs for entry in trust.entries if trust.allows(entry)]
    run = merge_run_files([*trusted, files_run_by(settings, trust.root, further)])
    scope = PermissionScope(
        directories=tuple(dict.fromkeys((Path(os.path.realpath(cwd)), *settings.directories))),
        private=private_paths(home),
        own=tuple(Path(os.path.realpath(path)) for path in own),
        trusted_git=trust.trusted_git,
        base=trust.root,
        settings=home.settings,
        hook_files=frozenset(map(str, run.files | run.settings | run.links)),
        hook_trees=frozenset(map(str, run.trees)),
        temporary=temporary,
    )
    return Policy(settings.mode, settings.rules, scope, is_delegating=settings.delegates)


def private_paths(home: Home) -> tuple[Path, ...]:
    """Return the paths that file tools may not touch by default: the state root, and the other product's login."""
    logins = [root / ".credentials.json" for root in (Path(os.path.expanduser("~/.claude")), client_root())]
    shared = [home.shared / name for name in ("teams", "tasks", "projects", ".credentials.json")]
    found = [home.own, *(shared if home.is_foreign else ()), *logins]
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in found))


def lead_mode(text: str, source: str = "--permission-mode") -> Mode:
    """Return the mode of a lead by name. Raises UsageError for an unknown mode, or one that a lead cannot have."""
    mode = parse_mode(text, source)
    if mode is Mode.BUBBLE:
        raise UsageError(
            "usage",
            f"{mode} means the mode of the agent that started it, and no agent started the lead",
            looked_at=[("from", source)],
            do=[f"say {Mode.DEFAULT}, or leave it out"],
            note="nothing was changed",
        )
    return mode


def settings_places(home: Home, root: Path, compat: bool) -> list[tuple[Path, SettingsOrigin]]:
    """Return the possible settings files of this repository, the farthest first."""
    theirs = client_root() / "settings.json"
    is_other = os.path.realpath(theirs) != os.path.realpath(home.settings)
    others = [(theirs, SettingsOrigin.COMPAT_USER)] if compat and is_other else []
    users = [*others, (home.settings, SettingsOrigin.USER)]
    known = {os.path.realpath(path) for path, _ in users}
    return users + [place for place in repository_layers(root, compat) if os.path.realpath(place[0]) not in known]


def reads_other_product(home: Home, flags: SettingFlags) -> bool:
    """Return the setting `compat.claude`, which must be known before any file of the other product is read."""
    found = True
    own = read_layer(home.settings, SettingsOrigin.USER) if reads_source(flags, SettingsOrigin.USER) else None
    for layer in (own, _flag_layer(flags)):
        found = bool(layer.values.get("compat.claude", found)) if layer is not None else found
    return found


def reads_source(flags: SettingFlags, origin: SettingsOrigin) -> bool:
    """Return True when files of this origin are read, by `--setting-sources`."""
    return flags.setting_sources is None or not origin.source or origin.source in flags.setting_sources


def _flag_layer(flags: SettingFlags) -> SettingsLayer | None:
    if flags.settings_file is None:
        return None
    layer = read_given_layer(flags.settings_file)
    if layer is None:
        raise CannotStart(
            "bad-settings",
            f"the settings file {flags.settings_file} does not exist",
            looked_at=[("flag", "--settings")],
            do=["name a file that exists, or leave --settings out"],
            note="nothing was started",
        )
    return layer


OWN_ONLY = "is taken from your own settings only"
_NOT_OURS = f"{OWN_ONLY}, and this is a file of the other product"

_HOOK_LIMITS = frozenset({"allowedHttpHookUrls", "httpHookAllowedEnvVars"})
_ADDS_ONLY = "only adds to a list of your own settings, and there is none"

_VERDICTS = {"permissions.allow": Verdict.ALLOW, "permissions.ask": Verdict.ASK, "permissions.deny": Verdict.DENY}


def why_user_only(layer: SettingsLayer) -> str:
    """Return why a value of this file has no effect, for keys that only a person's own settings may set."""
    return _NOT_OURS if layer.origin is SettingsOrigin.COMPAT_USER else OWN_ONLY


class SettingsMerge:
    """One merge of layers, from the farthest to the nearest. `parts` records every value read."""

    def __init__(self, trust: TrustState, *, tolerant: bool = False) -> None:
        self.trust = trust
        self.parts = SettingParts(tolerant)
        self.rules: list[Rule] = []
        self.directories: list[Path] = []
        self.env: dict[str, str] = {}
        self.person_env: dict[str, str] = {}
        self.hooks: list[HookSpec] = []
        self.values: dict[str, Any] = {}
        self.mode = Mode.DEFAULT
        self.delegates = False
        self.skills_off: frozenset[str] = frozenset()
        self.origins: dict[str, str] = {}
        self.warnings: list[str] = []
        self.read_files = 0
        self.served = McpSettingsReader(trust, self.origins, self.warnings, self.parts)

    def files(self, home: Home, flags: SettingFlags, compat: bool) -> None:
        """Read all files. Raises CannotStart (`bad-settings`) unless the merge is tolerant."""
        for path, origin in settings_places(home, self.trust.root, compat):
            layer = self.read(path, origin) if reads_source(flags, origin) else None
            if layer is not None:
                self.read_files += 1
                self.layer(layer)
        flag_layer = _flag_layer(flags)
        if flag_layer is not None:
            self.layer(flag_layer)

    def read(self, path: Path, origin: SettingsOrigin) -> SettingsLayer | None:
        try:
            return read_layer(path, origin)
        except CannotStart as problem:
            self.parts.unreadable(path, origin, problem)
            if origin.of_repository and not self.trust.trusted:
                self.warnings.append(f"{path}: left out: {problem.what}")
            elif not self.parts.tolerant:
                raise
            return None

    def layer(self, layer: SettingsLayer) -> None:
        self.parts.begin(layer)
        # the session opening gives one line about the others
        heeded = self.is_heeded(layer)
        self.warnings += layer.warnings if heeded else ()
        keys = setting_keys()
        for name, value in layer.values.items():
            if keys[name].user_only and (layer.origin.of_repository or layer.origin.compat):
                self.parts.add(layer, name, value=value).set_state("ignored", why_user_only(layer))
                self.warnings += [f"{layer.path}: {name} {why_user_only(layer)}"] if heeded else []
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
            elif keys[name].adds_up:
                self.add_texts(layer, name, value)
            elif self.is_allowed(layer, name, "", value):
                self.values[name] = value
                self.origins[name] = str(layer.path)

    def is_heeded(self, layer: SettingsLayer) -> bool:
        """Return True for a person's own settings, and those of a trusted repository."""
        return not layer.origin.of_repository or self.trust.trusted

    def add_texts(self, layer: SettingsLayer, name: str, value: list[str]) -> None:
        if name in _HOOK_LIMITS and layer.origin.of_repository and name not in self.values:
            # Alone it would switch off hooks of the person.
            self.parts.add(layer, name, value=value).set_state("ignored", _ADDS_ONLY)
            return
        texts = [text for at, text in enumerate(value) if self.is_allowed(layer, name, text, text, at)]
        if name == "skills.disabled":
            self.skills_off |= set(texts)
            return
        self.values[name] = (*self.values.get(name, ()), *texts)
        self.origins |= {f"{name} {text}": str(layer.path) for text in texts}

    def is_allowed(self, layer: SettingsLayer, name: str, part: str, value: Any, *at: str | int) -> bool:
        """Return True when this part of this layer is used: it is a person's own, a restriction, or trusted in this
        form.
        """
        noted = self.parts.add(layer, name, part, value, at)
        if not layer.origin.of_repository or setting_keys()[name].declared.narrows:
            return True
        allowed = self.trust.allows(entry_of(layer, self.trust.root, name, part, value))
        if not allowed:
            noted.set_state("needs trust")
        return allowed

    def add_rules(self, layer: SettingsLayer, name: str, texts: list[str]) -> None:
        for at, text in enumerate(texts):
            if not self.is_allowed(layer, name, text, text, at):
                continue
            try:
                own = layer.origin.by_user
                trusted = layer.origin.of_repository and self.trust.trusted
                found = parse_rules([text], _VERDICTS[name], str(layer.path), self.trust.root, own, trusted)
            except UsageError as problem:
                self.bad_rule(layer, name, problem)
            else:
                self.rules += found
                if dead := "; ".join(filter(None, map(find_dead_rule, found))):
                    self.parts.last.set_state("broken", dead)
                    self.warnings.append(f"{layer.path}: the rule {text[:60]!r} of {name} never applies: {dead}")
                self.origins[f"{name} {text}"] = str(layer.path)

    def bad_rule(self, layer: SettingsLayer, name: str, problem: UsageError) -> None:
        """Leave out a bad rule of an untrusted repository or a granting one of the other product; refuse any other."""
        foreign = layer.origin.of_repository and not self.trust.trusted
        if foreign or (layer.origin.compat and not setting_keys()[name].declared.narrows):
            self.leave_out(layer, problem)
        else:
            self.parts.refuse(bad_settings(layer.path, problem.what, name))

    def leave_out(self, layer: SettingsLayer, problem: UsageError) -> None:
        self.parts.last.set_state("broken", problem.what)
        self.warnings.append(f"{layer.path}: left out: {problem.what}")

    def add_directories(self, layer: SettingsLayer, paths: list[str]) -> None:
        for at, path in enumerate(paths):
            if self.is_allowed(layer, "permissions.additionalDirectories", path, path, at):
                full = os.path.join(self.trust.root, os.path.expanduser(path))
                self.directories.append(Path(os.path.realpath(full)))
                self.origins[f"permissions.additionalDirectories {path}"] = str(layer.path)

    def set_mode(self, layer: SettingsLayer, text: str) -> None:
        foreign = layer.origin.of_repository or layer.origin.compat
        if foreign and text == Mode.BYPASS:
            self.parts.add(layer, MODE, value=text).set_state("ignored", why_user_only(layer))
            self.warnings += [f"{layer.path}: the mode {text} {why_user_only(layer)}"] if self.is_heeded(layer) else []
            return
        if not self.is_allowed(layer, MODE, "", text):
            return
        try:
            mode = lead_mode(text, str(layer.path))
        except UsageError as problem:
            if foreign:
                self.leave_out(layer, problem)
            else:
                self.parts.refuse(bad_settings(layer.path, problem.what, MODE))
            return
        self.take_mode(mode)
        self.warnings += [f"{layer.path}: {AUTO_NOTICE}"] if text == "auto" else []
        self.origins[MODE] = str(layer.path)

    def take_mode(self, mode: Mode) -> None:
        """Set the lead's mode. A lead that only coordinates keeps the earlier mode, which its members follow."""
        self.delegates = mode is Mode.DELEGATE
        self.mode = self.mode if self.delegates else mode

    def add_hooks(self, layer: SettingsLayer, value: object, *, heeded: bool) -> None:
        """Add the layer's hooks: of a repository only hooks that were trusted in this form, with the files they run."""
        for entry in parse_hook_entries(value):
            noted = self.parts.add(layer, HOOKS, entry.name, entry.value, entry.path)
            if entry.hook is None:
                noted.set_state("broken" if entry.is_broken else "ignored", entry.reason)
                self.warnings += [f"{layer.path}: {entry.warning}"] if heeded else []
                continue
            root = self.trust.root
            is_projects = layer.origin.of_repository
            hook = replace(entry.hook, source=str(layer.path))
            if dead := find_dead_hook(hook):
                noted.set_state("broken", dead)
                self.warnings += [f"{layer.path}: a hook of {hook.event}: {dead}"] if heeded else []
            trusted = hook_entry(layer, root, hook) if is_projects else None
            if trusted is not None and not self.trust.allows(trusted):
                noted.set_state("needs trust")
                continue
            found = hook_files(root, hook) if trusted is None else trusted.runs
            self.hooks.append(bind_hook(root, hook, found, is_projects=is_projects))
            self.origins[f"hooks.{hook.event} {hook.line}"] = str(layer.path)

    def add_env(self, layer: SettingsLayer, variables: Mapping[str, str]) -> None:
        for name, value in variables.items():
            if (layer.origin.of_repository or layer.origin.compat) and is_user_only_variable(name):
                self.parts.add(layer, "env", name, value, (name,)).set_state("ignored", why_user_only(layer))
                is_reported = self.is_heeded(layer) and not (layer.origin.compat and is_other_product_variable(name))
                self.warnings += [f"{layer.path}: the variable {name} {why_user_only(layer)}"] if is_reported else []
            elif self.is_allowed(layer, "env", name, value, name):
                self.env[name] = value
                if layer.origin.of_repository:
                    self.person_env.pop(name, None)
                else:
                    self.person_env[name] = value
                self.origins[f"env {name}"] = str(layer.path)

    def flags(self, flags: SettingFlags, cwd: Path) -> None:
        if flags.only_allowed:
            self.rules = [rule for rule in self.rules if rule.verdict is not Verdict.ALLOW]
            self.directories = []
        if flags.permission_mode is not None:
            self.take_mode(lead_mode(flags.permission_mode))
            self.warnings += [f"--permission-mode: {AUTO_NOTICE}"] if flags.permission_mode == "auto" else []
            self.origins["permissions.defaultMode"] = "--permission-mode"
        for name in ("model", "effort", "thinking", "plan_approval"):
            if (value := getattr(flags, name)) is not None:
                self.values[name] = value
                self.origins[name] = f"--{name.replace('_', '-')}"
        if flags.markdown is not None:
            self.values["markdown"], self.origins["markdown"] = flags.markdown, "--no-markdown"
        if flags.plain_terminal is not None:
            self.values["terminal.plain"], self.origins["terminal.plain"] = flags.plain_terminal, "--plain"
        if flags.sandbox is not None:
            self.values["sandbox.mode"], self.origins["sandbox.mode"] = flags.sandbox, "--sandbox"
        if flags.backend is not None:
            self.values[BACKEND], self.origins[BACKEND] = flags.backend, "--backend"
        base = Path(os.path.realpath(cwd))
        self.rules += parse_rules(flags.allowed_tools, Verdict.ALLOW, "--allowedTools", base)
        self.rules += parse_rules(flags.disallowed_tools, Verdict.DENY, "--disallowedTools", base)
        self.rules += parse_rules(flags.asked_tools, Verdict.ASK, "the client", base)
        self.directories += [
            Path(os.path.realpath(os.path.join(base, os.path.expanduser(path)))) for path in flags.add_dirs
        ]

    def settings(self, compat: bool) -> Settings:
        """Return the merged settings. Raises CannotStart (`bad-settings`) for a value that its package refuses."""
        settings = make_sections(self.values, self.origins)
        return replace(
            settings,
            rules=tuple(self.rules),
            mode=self.mode,
            delegates=self.delegates,
            directories=tuple(dict.fromkeys(self.directories)),
            env=self.env,
            person_env=self.person_env,
            hooks=() if settings.hooks_off else tuple(self.hooks),
            mcp=self.served.settings(self.values, compat=compat),
            compat=compat,
            skills_off=frozenset(name.lower().removeprefix("/") for name in self.skills_off),
            warnings=tuple(self.warnings),
            origins=self.origins,
            files=self.read_files,
        )
