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

from teamwright.sandbox.known_paths import CLOUDS, CLUSTERS, GIT, NODE_PACKAGES, SSH, WAREHOUSES

Words: TypeAlias = Sequence[str | None]


class CommandNeeds(Struct, frozen=True):
    """The needs of a line. `credentials` are paths in the home directory, `sockets` paths of the system.

    `whole_network`: a program that cannot use a proxy, or is a server for other programs of the machine. `git_config`:
    it changes the configuration of the repository. `programs` have caches. `agent`: the ssh agent. `gpg_agent`: that of
    gpg, for signatures. `keys` are absolute paths of files for them. `git_keys` are the settings of git that it
    names, in lower case; one that ends in a dot is a section.
    """

    network: bool = False
    whole_network: bool = False
    credentials: frozenset[str] = frozenset()
    sockets: frozenset[str] = frozenset()
    agent: bool = False
    gpg_agent: bool = False
    keys: frozenset[str] = frozenset()
    git_config: bool = False
    git_keys: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()

    def secrets(self) -> CommandNeeds:
        """Return the part that no other program should have: all but the network through the proxy, and caches."""
        return replace(self, network=self.whole_network, git_config=False, git_keys=_NONE, programs=_NONE)

    def describe(self, hosts: Iterable[str] | None = None) -> str:
        """Return the needs for the question; empty when there are none.

        `hosts` are those that need no further question; None: no host is asked about.
        """
        parts = [_network_text(hosts)] if self.network else []
        parts += [f"~/{path}" for path in sorted(self.credentials)[:_SHOWN]]
        parts += ["…"] if len(self.credentials) > _SHOWN else []
        parts += sorted(self.sockets)
        parts += ["keys for signatures"] if self.keys else []
        parts += ["the ssh agent"] if self.agent else []
        parts += ["the gpg agent"] if self.gpg_agent else []
        parts += ["the repository's git configuration"] if self.git_config else []
        return ", ".join(parts)


def _network_text(hosts: Iterable[str] | None) -> str:
    if hosts is None:
        return "the whole network"
    named = list(hosts)
    if not named:
        return "the network (each host asks)"
    return f"the network ({' '.join(named[:_SHOWN])}{' …' * (len(named) > _SHOWN)}; other hosts ask)"


NO_NEEDS = CommandNeeds()
_NONE = frozenset[str]()
_SHOWN = 4
_NETWORK = CommandNeeds(network=True)
_WHOLE_NETWORK = CommandNeeds(network=True, whole_network=True)
_GIT = CommandNeeds(network=True, credentials=frozenset(GIT), agent=True)
_SSH = CommandNeeds(network=True, credentials=frozenset(SSH), agent=True)
_CONTAINERS = CommandNeeds(
    network=True,
    whole_network=True,
    credentials=frozenset({".docker", ".dockercfg", ".config/containers/auth.json"}),
    sockets=frozenset({"/run/docker.sock", "/run/podman", "/run/containerd"}),
)
_ALL_CLOUDS = frozenset({*CLOUDS, ".terraform.d", ".terraformrc", ".pulumi"})


def _with(*paths: str) -> CommandNeeds:
    return CommandNeeds(network=True, credentials=frozenset(paths))


def _directly(*paths: str) -> CommandNeeds:
    return replace(_with(*paths), whole_network=True)


def _each(names: str, needs: CommandNeeds) -> dict[str, CommandNeeds]:
    return dict.fromkeys(names.split(), needs)


PROGRAMS: Mapping[str, CommandNeeds] = {
    **_each("gh hub glab", replace(_GIT, credentials=_GIT.credentials | {".config/hub", ".config/glab-cli"})),
    **_each("ssh scp sftp rsync ssh-add ssh-copy-id ssh-keygen", _SSH),
    "mosh": replace(_SSH, whole_network=True),
    **_each("docker docker-compose podman nerdctl buildah skopeo", _CONTAINERS),
    **_each("curl wget http https xh aria2c apt apt-get dnf yum brew", _NETWORK),
    **_each("nc ncat telnet ping dig nslookup host whois traceroute", _WHOLE_NETWORK),
    **_each("http.server uvicorn gunicorn hypercorn vite next nuxt astro caddy", _WHOLE_NETWORK),
    **_each("ngrok", _directly(".config/ngrok", ".ngrok2")),
    **_each("aws sam eb", _with(".aws")),
    **_each("gcloud gsutil bq firebase", _with(".config/gcloud", ".config/configstore", ".boto")),
    **_each("az", _with(".azure")),
    **_each("kubectl helm k9s kustomize skaffold", _directly(".kube", ".config/helm", *CLOUDS, *CLUSTERS)),
    "argocd": _directly(".config/argocd", ".kube"),
    "rancher": _directly(".rancher", ".kube"),
    "minikube": replace(_CONTAINERS, credentials=_CONTAINERS.credentials | {".minikube", ".kube"}),
    **_each("dbt snowsql snow databricks", _directly(*WAREHOUSES)),
    "openstack": _directly(".config/openstack"),
    "aliyun": _with(".aliyun"),
    "ibmcloud": _with(".bluemix"),
    "linode-cli": _with(".config/linode-cli"),
    "civo": _with(".civo.json"),
    "cloudflared": _directly(".cloudflared"),
    "doppler": _with(".doppler"),
    "neonctl": _with(".config/neonctl"),
    "pscale": _directly(".config/planetscale"),
    "sentry-cli": _with(".sentryclirc"),
    "modal": _directly(".modal.toml"),
    "kaggle": _with(".kaggle"),
    "influx": _directly(".influxdbv2"),
    "mc": _with(".mc"),
    "borg": replace(_SSH, credentials=_SSH.credentials | {".config/borg/keys"}),
    "vsce": _with(".vsce"),
    **_each("expo eas", _with(".expo/state.json")),
    "step": _with(".step"),
    "llm": _with(".config/io.datasette.llm"),
    "ollama": _directly(".ollama/id_ed25519"),
    "tea": replace(_GIT, credentials=_GIT.credentials | {".config/tea"}),
    **_each("solana anchor", _directly(".config/solana")),
    **_each("forge cast", _with(".foundry/keystores")),
    **_each("hcloud", _with(".config/hcloud")),
    **_each("stripe", _with(".config/stripe")),
    **_each("sops age", CommandNeeds(credentials=frozenset({".config/sops", ".config/age"}))),
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
    **_each("psql", _directly(".pgpass")),
    **_each("mysql mysqldump", _directly(".my.cnf", ".mylogin.cnf")),
    **_each("twine", _with(".pypirc")),
    **_each(
        "huggingface-cli hf", _with(".huggingface", ".cache/huggingface/token", ".cache/huggingface/stored_tokens")
    ),
    **_each("gpg", CommandNeeds(credentials=frozenset({".gnupg"}), gpg_agent=True)),
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
_NODE_SUBCOMMANDS = {**_each(f"{_INSTALLS} {_PUBLISHES}", _NODE), **_each(_SERVES, _WHOLE_NETWORK), "": _NODE}
_PYTHON_SUBCOMMANDS = {**_each(_PYTHON_PACKAGES, _NETWORK), "publish": _with(".pypirc")}
_UV = _with(".local/share/uv/credentials")
_PUB = _with(".pub-cache/credentials.json", ".config/dart/pub-credentials.json")
_POETRY = _with(".config/pypoetry/auth.toml")

SUBCOMMANDS: Mapping[str, Mapping[str, CommandNeeds]] = {
    "git": {
        **_each(_GIT_TRANSFERS, replace(_GIT, git_config=True)),
        **_each(_GIT_CONFIGURES, CommandNeeds(git_config=True)),
    },
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "npx", "corepack"), _NODE_SUBCOMMANDS),
    **dict.fromkeys(("pip", "pip3", "pipx", "pdm", "hatch", "conda", "mamba"), _PYTHON_SUBCOMMANDS),
    "uv": {**_each(_PYTHON_PACKAGES, _UV), "publish": replace(_UV, credentials=_UV.credentials | {".pypirc"})},
    "poetry": _each(f"{_PYTHON_PACKAGES} publish", _POETRY),
    "cargo": {
        **_each(_BUILDS, _NETWORK),
        **_each("publish login logout owner yank", _with(".cargo/credentials", ".cargo/credentials.toml")),
    },
    "rustup": _each("update install toolchain target component", _NETWORK),
    "go": _each("get install mod work", _NETWORK),
    "gem": {
        **_each("install update fetch", _NETWORK),
        "push": _with(".gem/credentials", ".local/share/gem/credentials"),
    },
    "bundle": _each("install update add", _with(".bundle/config")),
    "composer": _each(
        "install update require create-project", _with(".composer/auth.json", ".config/composer/auth.json")
    ),
    "mvn": {"": _directly(".m2/settings.xml", ".m2/settings-security.xml")},
    "gradle": {"": _directly(".gradle/gradle.properties")},
    "gradlew": {"": _directly(".gradle/gradle.properties")},
    "sbt": {"": _directly(".sbt/.credentials", ".ivy2/.credentials")},
    "lein": {"": _directly(".lein/credentials.clj.gpg")},
    "dart": {"pub": _PUB},
    "flutter": {"pub": _PUB},
    "dotnet": _each("restore add build publish nuget tool", _with(".nuget/NuGet")),
    "flask": {"run": _WHOLE_NETWORK},
    "rails": _each("s server", _WHOLE_NETWORK),
    **dict.fromkeys(("mkdocs", "jekyll", "hugo"), _each("serve server", _WHOLE_NETWORK)),
}
"""Programs whose first argument decides; the empty one stands for a call without another match."""

_MODULES = {"pip": "pip", "http.server": "http.server", "uvicorn": "uvicorn", "flask": "flask", "twine": "twine"}
"""Python modules that are programs."""

_PASSIVE = frozenset({"cd", "echo", "true", ":", "pwd", "test", "["})
"""Commands beside which a line still consists of git commands only."""


def command_needs(commands: Iterable[Words]) -> CommandNeeds:
    """Return what the commands of a line need together. A command whose words are not known needs nothing."""
    total = NO_NEEDS
    only_git = True
    for words in commands:
        name = program_name(words)
        if not name:
            continue
        only_git = only_git and (name == "git" or name in _PASSIVE)
        total = _join(total, _needs_of(name, words[1:]))
    return total if only_git else replace(total, git_config=False, git_keys=_NONE)


def shared_secrets(commands: Sequence[Words]) -> tuple[str, CommandNeeds] | None:
    """Return a program of a line that would get secrets which only other programs of it need, with all of these.

    None: each program needs them all, or there are none.
    """
    each: dict[str, CommandNeeds] = {}
    for words in commands:
        name = program_name(words)
        each[name] = _join(each.get(name, NO_NEEDS), command_needs([words]).secrets())
    total = NO_NEEDS
    for needs in each.values():
        total = _join(total, needs)
    return next(((name, total) for name, needs in each.items() if needs != total and name not in _PASSIVE), None)


def program_name(words: Words) -> str:
    """Return the name of the program without its directory; empty when it is not known."""
    first = words[0] if words else None
    return os.path.basename(first) if first else ""


def python_module(name: str, arguments: Words) -> tuple[str, Words]:
    """Return the program that `python -m MODULE` runs, with its arguments; another command as it is."""
    if name.startswith("python") and len(arguments) >= 2 and arguments[0] == "-m" and arguments[1] in _MODULES:
        return _MODULES[arguments[1]], arguments[2:]
    return name, arguments


def plain_arguments(arguments: Words) -> list[str]:
    """Return the arguments that are neither options nor their values. The first is the subcommand."""
    plain: list[str] = []
    before = ""
    for word in arguments:
        if before not in _VALUED and word is not None and not word.startswith(("-", "+")):
            plain.append(word)
        before = "" if before in _VALUED else word or ""
    return plain


def _needs_of(name: str, arguments: Words) -> CommandNeeds:
    name, arguments = python_module(name, arguments)
    if name.startswith("python") and "runserver" in arguments[:2]:
        return _WHOLE_NETWORK
    found = PROGRAMS.get(name)
    if found is None and name in SUBCOMMANDS:
        choices = SUBCOMMANDS[name]
        subcommand = _subcommand(name, arguments)
        found = choices.get(subcommand, choices.get("", None) if not subcommand or name in _ANY else None)
    keys = _git_keys(arguments) if name == "git" else _NONE
    return replace(found or NO_NEEDS, programs=frozenset({name}), git_keys=keys)


_GIT_SECTIONS: Mapping[str, frozenset[str]] = {
    "lfs": frozenset({"filter.lfs.", "diff.lfs."}),
    "flow": frozenset({"gitflow."}),
    "maintenance": frozenset({"maintenance."}),
}
"""Sections in which a subcommand of git stores its settings."""


def _git_keys(arguments: Words) -> frozenset[str]:
    """Return the settings of the repository's configuration that a git command names."""
    subcommand, *given = plain_arguments(arguments) or [""]
    if subcommand == "config":
        return frozenset([next((word.lower() for word in given if "." in word), "")]) - {""}
    return _GIT_SECTIONS.get(subcommand, _NONE)


_ANY = frozenset({"mvn", "gradle", "gradlew", "npx"})
"""Programs that need the same with each argument."""

_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--prefix", "--cwd", "--filter", "-w"})
"""Options with a value in the next word, before the subcommand."""


def _subcommand(name: str, arguments: Words) -> str:
    """Return the first argument that is no option; for `npm run dev` and the like the script."""
    plain = plain_arguments(arguments)
    if plain[:1] == ["run"] and name in {"npm", "pnpm", "yarn", "bun"}:
        script = plain[1] if len(plain) > 1 else "run"
        return script.partition(":")[0] if script.partition(":")[0] in _SERVES.split() else "run"
    return plain[0] if plain else ""


def _join(one: CommandNeeds, other: CommandNeeds) -> CommandNeeds:
    return CommandNeeds(
        network=one.network or other.network,
        whole_network=one.whole_network or other.whole_network,
        credentials=one.credentials | other.credentials,
        sockets=one.sockets | other.sockets,
        agent=one.agent or other.agent,
        gpg_agent=one.gpg_agent or other.gpg_agent,
        keys=one.keys | other.keys,
        git_config=one.git_config or other.git_config,
        git_keys=one.git_keys | other.git_keys,
        programs=one.programs | other.programs,
    )
