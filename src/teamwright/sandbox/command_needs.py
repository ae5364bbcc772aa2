"""The network and the credentials that a command names: `git push`, `gh`, `npm publish`, `docker`, `ssh`, cloud tools.

An allowed command gets what it names, and nothing more. Tables by the first words of a command; depends on the paths of
credentials.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.sandbox.secret_paths import CLOUDS, GIT, NODE_PACKAGES, SSH

Words: TypeAlias = Sequence[str | None]


class CommandNeeds(Struct, frozen=True):
    """The needs of a line. `credentials` are paths in the home directory, `sockets` paths of the system.

    `git_config`: it changes the configuration of the repository. `programs` have caches. `agent`: the ssh agent.
    """

    network: bool = False
    credentials: frozenset[str] = frozenset()
    sockets: frozenset[str] = frozenset()
    agent: bool = False
    git_config: bool = False
    programs: frozenset[str] = frozenset()

    def describe(self) -> str:
        """Return the needs for the question; empty when there are none."""
        parts = ["the network"] if self.network else []
        parts += [f"~/{path}" for path in sorted(self.credentials)[:_SHOWN]]
        parts += ["…"] if len(self.credentials) > _SHOWN else []
        parts += sorted(self.sockets)
        parts += ["the ssh agent"] if self.agent else []
        parts += ["the repository's git configuration"] if self.git_config else []
        return ", ".join(parts)


NO_NEEDS = CommandNeeds()
_SHOWN = 4
_NETWORK = CommandNeeds(network=True)
_GIT = CommandNeeds(network=True, credentials=frozenset(GIT), agent=True)
_SSH = CommandNeeds(network=True, credentials=frozenset(SSH), agent=True)
_CONTAINERS = CommandNeeds(
    network=True,
    credentials=frozenset({".docker", ".config/containers/auth.json"}),
    sockets=frozenset({"/run/docker.sock", "/run/podman", "/run/containerd"}),
)
_ALL_CLOUDS = frozenset({*CLOUDS, ".terraform.d", ".terraformrc", ".pulumi"})


def _with(*paths: str) -> CommandNeeds:
    return CommandNeeds(network=True, credentials=frozenset(paths))


def _each(names: str, needs: CommandNeeds) -> dict[str, CommandNeeds]:
    return dict.fromkeys(names.split(), needs)


_PROGRAMS: Mapping[str, CommandNeeds] = {
    **_each("gh hub glab", replace(_GIT, credentials=_GIT.credentials | {".config/hub", ".config/glab-cli"})),
    **_each("ssh scp sftp rsync mosh ssh-add ssh-copy-id ssh-keygen", _SSH),
    **_each("docker docker-compose podman nerdctl buildah skopeo", _CONTAINERS),
    **_each("curl wget http https xh aria2c nc ncat telnet ping dig nslookup host whois traceroute", _NETWORK),
    **_each("apt apt-get dnf yum brew uvicorn gunicorn hypercorn vite next nuxt astro caddy ngrok", _NETWORK),
    **_each("aws sam eb", _with(".aws")),
    **_each("gcloud gsutil bq firebase", _with(".config/gcloud", ".config/configstore", ".boto")),
    **_each("az", _with(".azure")),
    **_each("kubectl helm k9s kustomize skaffold", _with(".kube", ".config/helm", *CLOUDS)),
    **_each("terraform tofu pulumi ansible ansible-playbook serverless", _with(*_ALL_CLOUDS)),
    **_each("doctl", _with(".config/doctl")),
    **_each("rclone", _with(".config/rclone")),
    **_each("s3cmd", _with(".s3cfg")),
    **_each("heroku", _with(".config/heroku", ".netrc")),
    **_each("fly flyctl", _with(".fly")),
    **_each("vercel", _with(".local/share/com.vercel.cli")),
    **_each("netlify", _with(".config/netlify")),
    **_each("wrangler", _with(".config/.wrangler", ".wrangler")),
    **_each("vault", _with(".vault-token")),
    **_each("op", _with(".config/op")),
    **_each("psql", _with(".pgpass")),
    **_each("mysql mysqldump", _with(".my.cnf", ".mylogin.cnf")),
    **_each("twine", _with(".pypirc")),
    **_each("huggingface-cli", _with(".huggingface", ".cache/huggingface/token")),
    **_each("gpg", CommandNeeds(credentials=frozenset({".gnupg"}))),
}
"""Programs whose name alone says what they need, independent of the arguments."""

_INSTALLS = "install i ci add update upgrade up outdated audit view info search exec dlx create init pack remove rm"
_SERVES = "dev start serve preview"
_PUBLISHES = "publish login logout whoami adduser token owner access deprecate unpublish dist-tag"
_BUILDS = "build b check c test t run r add install update fetch search doc clippy bench"
_PYTHON_PACKAGES = "install download wheel index search add sync lock update upgrade tool pip python create"
_GIT_TRANSFERS = "push pull fetch clone ls-remote submodule lfs archive"
_GIT_CONFIGURES = "config remote init branch switch checkout worktree sparse-checkout maintenance subtree flow"
_NODE = _with(*NODE_PACKAGES)
_NODE_SUBCOMMANDS = {**_each(f"{_INSTALLS} {_PUBLISHES}", _NODE), **_each(_SERVES, _NETWORK), "": _NODE}
_PYTHON_SUBCOMMANDS = {**_each(_PYTHON_PACKAGES, _NETWORK), "publish": _with(".pypirc")}

_SUBCOMMANDS: Mapping[str, Mapping[str, CommandNeeds]] = {
    "git": {
        **_each(_GIT_TRANSFERS, replace(_GIT, git_config=True)),
        **_each(_GIT_CONFIGURES, CommandNeeds(git_config=True)),
    },
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "npx", "corepack"), _NODE_SUBCOMMANDS),
    **dict.fromkeys(("pip", "pip3", "uv", "poetry", "pipx", "pdm", "hatch", "conda", "mamba"), _PYTHON_SUBCOMMANDS),
    "cargo": {
        **_each(_BUILDS, _NETWORK),
        **_each("publish login logout owner yank", _with(".cargo/credentials", ".cargo/credentials.toml")),
    },
    "rustup": _each("update install toolchain target component", _NETWORK),
    "go": _each("get install mod work", _NETWORK),
    "gem": {**_each("install update fetch", _NETWORK), "push": _with(".gem/credentials")},
    "bundle": _each("install update add", _NETWORK),
    "composer": _each("install update require create-project", _with(".composer/auth.json")),
    "mvn": {"": _with(".m2/settings.xml", ".m2/settings-security.xml")},
    "gradle": {"": _with(".gradle/gradle.properties")},
    "gradlew": {"": _with(".gradle/gradle.properties")},
    "dotnet": _each("restore add build publish nuget tool", _with(".nuget/NuGet")),
    "flask": {"run": _NETWORK},
    "rails": _each("s server", _NETWORK),
    **dict.fromkeys(("mkdocs", "jekyll", "hugo"), _each("serve server", _NETWORK)),
}
"""Programs whose first argument decides; the empty one stands for a call without another match."""

_MODULES = {"pip": "pip", "http.server": "", "uvicorn": "uvicorn", "flask": "flask", "twine": "twine"}
"""Python modules that are programs; an empty name is a server."""

_PASSIVE = frozenset({"cd", "echo", "true", ":", "pwd", "test", "["})
"""Commands beside which a line still consists of git commands only."""


def command_needs(commands: Iterable[Words]) -> CommandNeeds:
    """Return what the commands of a line need together. A command whose words are not known needs nothing."""
    total, only_git = NO_NEEDS, True
    for words in commands:
        name = _program(words)
        if not name:
            continue
        only_git = only_git and (name == "git" or name in _PASSIVE)
        total = _join(total, _needs_of(name, words[1:]))
    return total if only_git else replace(total, git_config=False)


def _needs_of(name: str, arguments: Words) -> CommandNeeds:
    if name.startswith("python") and len(arguments) >= 2 and arguments[0] == "-m" and arguments[1] in _MODULES:
        module = _MODULES[arguments[1]]
        return _needs_of(module, arguments[2:]) if module else _NETWORK
    if name.startswith("python") and "runserver" in arguments[:2]:
        return _NETWORK
    found = _PROGRAMS.get(name)
    if found is None and name in _SUBCOMMANDS:
        choices = _SUBCOMMANDS[name]
        subcommand = _subcommand(name, arguments)
        found = choices.get(subcommand, choices.get("", None) if not subcommand or name in _ANY else None)
    return replace(found or NO_NEEDS, programs=frozenset({name}))


_ANY = frozenset({"mvn", "gradle", "gradlew", "npx"})
"""Programs that need the same with each argument."""


def _subcommand(name: str, arguments: Words) -> str:
    """Return the first argument that is no option; for `npm run dev` and the like the script."""
    values = {"-C", "-c", "--git-dir", "--work-tree", "--prefix", "--cwd", "--filter", "-w"}
    plain: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word in values:
            skip = True
        elif word is not None and not word.startswith(("-", "+")):
            plain.append(word)
    if plain[:1] == ["run"] and name in {"npm", "pnpm", "yarn", "bun"}:
        script = plain[1] if len(plain) > 1 else "run"
        return script.partition(":")[0] if script.partition(":")[0] in _SERVES.split() else "run"
    return plain[0] if plain else ""


def _program(words: Words) -> str:
    first = words[0] if words else None
    return os.path.basename(first) if first else ""


def _join(one: CommandNeeds, other: CommandNeeds) -> CommandNeeds:
    return CommandNeeds(
        network=one.network or other.network,
        credentials=one.credentials | other.credentials,
        sockets=one.sockets | other.sockets,
        agent=one.agent or other.agent,
        git_config=one.git_config or other.git_config,
        programs=one.programs | other.programs,
    )
