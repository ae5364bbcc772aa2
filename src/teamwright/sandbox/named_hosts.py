"""The hosts that a command line names: in an address, as the remote of a repository, or as the registry of a program.

An allowed command may connect to them without a further question. A registry is the usual one, or that of the person's
own files and variables. The files of a project name none: they were not shown to a person. Depends on git for remotes.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from teamwright.git.git_calls import run_git
from teamwright.sandbox.command_needs import Words, command_needs, plain_arguments, program_name, python_module

_Place: TypeAlias = tuple[str, int]
"""A host and a port; 0 for one that is not known."""

_ADDRESS = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*)://(?:[^/?#@\s]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{0,5}))?(?=[/?#\s]|$)"
)
_HTTP, _HTTPS, _SSH = 80, 443, 22
_PORTS: Mapping[str, int] = {
    **{"http": _HTTP, "ws": _HTTP, "https": _HTTPS, "wss": _HTTPS, "ssh": _SSH, "sftp": _SSH},
    **{"git": 9418, "ftp": 21, "ftps": 990, "rsync": 873},
}
"""The port of an address without one, by the last part of its scheme (`git+https`)."""
_ARGUMENT = re.compile(r"(?:--?[\w.-]+=|[^\s:?#=]+\s*@\s*)?" + _ADDRESS.pattern)
"""An argument that is an address, or gives one to an option or a package. One inside other data is not named."""
_PLAIN = re.compile(r"(?:[^/@:\s]+@)?([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|localhost)(?::(\d{1,5}))?(?:[/?#].*)?")
"""An address without its scheme, as curl takes it."""
_COPY = re.compile(r"(?:[^/@:\s]+@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?!//).*")
"""A path on another machine, as scp and git take it."""
_LOGIN = re.compile(r"(?:ssh://|sftp://)?(?:[^/@\s]+@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?/?")
_LOGIN_PORT = re.compile(r"(?:-[pP] ?|-o ?Port=)(\d{1,5})")
_LOGIN_VALUES = frozenset(map("-{}".format, "bBcDEeFIiJLlmOoPpQRSWw"))
"""Options of ssh, scp and sftp with a value in the next word."""

_PYTHON = ("pypi.org", "files.pythonhosted.org")
_NODE = ("registry.npmjs.org",)
_RUST = ("index.crates.io", "static.crates.io")
_GITHUB = ("github.com", "api.github.com", "uploads.github.com", "codeload.github.com", "objects.githubusercontent.com")
_REGISTRIES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("pip", "pip3", "uv", "poetry", "pipx", "pdm", "hatch"), _PYTHON),
    **dict.fromkeys(("conda", "mamba"), ("conda.anaconda.org", "repo.anaconda.com")),
    "twine": ("upload.pypi.org", "pypi.org"),
    **dict.fromkeys(("npm", "npx", "pnpm", "bun", "corepack"), _NODE),
    "yarn": (*_NODE, "registry.yarnpkg.com"),
    "cargo": _RUST,
    "rustup": ("static.rust-lang.org",),
    "go": ("proxy.golang.org", "sum.golang.org"),
    **dict.fromkeys(("gem", "bundle"), ("rubygems.org", "index.rubygems.org")),
    "composer": ("repo.packagist.org", "packagist.org"),
    "dotnet": ("api.nuget.org",),
    "huggingface-cli": ("huggingface.co",),
    "gh": _GITHUB,
}
"""The usual registries and services."""

_PYTHON_FILES = (".config/pip/pip.conf", ".pip/pip.conf", "/etc/pip.conf", ".config/uv/uv.toml", "/etc/uv/uv.toml")
_NODE_FILES = (".npmrc", ".yarnrc", ".yarnrc.yml", ".config/pnpm/rc", "/etc/npmrc")
_CARGO_FILES = (".cargo/config.toml", ".cargo/config")
_FILES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("pip", "pip3", "uv", "poetry", "pipx", "pdm", "hatch"), _PYTHON_FILES),
    **dict.fromkeys(("npm", "npx", "pnpm", "bun", "yarn", "corepack"), _NODE_FILES),
    "cargo": _CARGO_FILES,
}
"""The person's files that name registries, below the home directory unless they begin with a slash."""
_REGISTRY_KEY = re.compile(r"registry|index|source|replace|npmRegistryServer|\burl\b|publish", re.I)
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("pip", "pip3", "pipx"), ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")),
    "uv": ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL"),
    **dict.fromkeys(("npm", "npx", "pnpm"), ("npm_config_registry", "NPM_CONFIG_REGISTRY")),
    "yarn": ("YARN_REGISTRY", "YARN_NPM_REGISTRY_SERVER", "npm_config_registry"),
    "go": ("GOPROXY", "GOSUMDB"),
    "rustup": ("RUSTUP_DIST_SERVER",),
    "gh": ("GH_HOST",),
}
_MAX_FILE_BYTES = 100_000
_REMOTES_TIMEOUT_S = 1.0
"""A command waits in that time. Hosts of remotes that are not known by then ask."""

_Remotes: TypeAlias = Callable[[Path], Mapping[tuple[str, str], None]]
"""Returns the names and addresses of the remotes of the repository in this directory."""
_DATA_NAMES = (
    "author body body-file cacert capath cert comment config connect-timeout connect-to cookie cookie-jar data"
    " data-ascii data-binary data-raw data-urlencode description dir doh-url dump-header execute field form"
    " form-string header input input-file interface json key load-cookies max-time message method body-data"
    " noproxy notes output output-dir output-document output-file password post-data post-file preproxy proxy"
    " proxy-header proxy-user push-option range raw-field referer request resolve retry save-cookies server-option"
    " session socks4 socks4a socks5 socks5-hostname subject tag text time-cond title upload-file url-query user"
    " user-agent write-out"
)
_DATA_OPTIONS = frozenset(map("--{}".format, _DATA_NAMES.split()))
"""Options whose value is data, a file, or the way to a host: a permission is not for a host in it."""
_DATA_LETTERS: Mapping[str, str] = {
    "curl": "AbcCdDeEFHKmoPQrtTuUwxXyYz",
    "wget": "aABDeiIlOoPQRtTUwX",
    "aria2c": "dijklmostTxU",
    **dict.fromkeys(("http", "https", "xh"), "aAoS"),
    "git": "bcCFjmo",
}
"""Such options of one letter."""
_NO_ADDRESSES = frozenset(["gh", "glab", "hub"])
"""Programs whose arguments are texts, and whose hosts are those of remotes."""
_WITH_ADDRESS = frozenset(["curl", "wget", "http", "https", "xh", "aria2c"])
_LOGINS = frozenset(["ssh", "scp", "sftp", "rsync", "ssh-copy-id"])


class Destination(Struct, frozen=True):
    """The extent of a permission to connect: a host with all its ports (`port` is 0), or one port of this machine.

    The ports of another host belong to one owner; on this machine each is another program.
    """

    host: str
    port: int = 0

    @classmethod
    def of(cls, host: str, port: int) -> Destination:
        """Return the destination of a connection."""
        plain = plain_host(host)
        return cls(plain, port if is_loopback(plain) else 0)

    @property
    def is_here(self) -> bool:
        """True for a port of this machine."""
        return self.port != 0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.is_here else host


def named_hosts(commands: Iterable[Words], cwd: Path, home: str, env: Mapping[str, str]) -> tuple[Destination, ...]:
    """Return what the commands of a line name, each once. Git is called for the remotes of repositories.

    Addresses of other machines than this one are left out when they are numbers: a person is asked about each.
    `cwd` is the directory of the line, `home` the person's; `env` has the variables of the commands.
    """
    found: dict[Destination, None] = {}
    remotes = cache(_read_remotes)
    for words in (one for one in commands if command_needs([one]).network):
        for host, port in _places(words, cwd, home, env, remotes):
            named = Destination.of(host.strip("[]"), port)
            if named.is_here or (named.host and not _is_number(named.host) and not is_loopback(named.host)):
                found[named] = None
    return tuple(found)


def plain_host(host: str) -> str:
    """Return the one spelling of a host that rules and questions use: an IPv4 address inside of an IPv6 one as such."""
    plain = host.rstrip(".").lower()
    try:
        found = ipaddress.ip_address(plain)
    except ValueError:
        return plain
    return str(getattr(found, "ipv4_mapped", None) or found)


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and the addresses of this machine alone."""
    if host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _is_number(host: str) -> bool:
    """Return True for an address, also in a form that only the C library reads, such as `0x7f.1`."""
    return ":" in host or all(re.fullmatch(r"\d+|0x[0-9a-f]*", part) for part in host.split("."))


def _places(words: Words, cwd: Path, home: str, env: Mapping[str, str], remotes: _Remotes) -> Iterator[_Place]:
    name, arguments = python_module(program_name(words), words[1:])
    known = list(_without_data(name, arguments))
    if name in _LOGINS:
        yield from _logins(name, arguments)
        return
    found_addresses = (found for word in known if name not in _NO_ADDRESSES and (found := _ARGUMENT.match(word)))
    addresses = [_place(*found.groups()) for found in found_addresses if _usual_port(found[1])]
    yield from addresses
    if name in _WITH_ADDRESS and not addresses:
        plain = [found for word in known if not word.startswith("-") and (found := _PLAIN.fullmatch(word))]
        yield from ((found[1], int(found[2] or _PORTS.get(name, _HTTP))) for found in plain)
    if name == "git":
        yield from _transfer_hosts(known, _directory(arguments, cwd), remotes)
    if name == "gh":
        yield from _remote_hosts(remotes(cwd), ())
    yield from _registries(name, home, env)


def _without_data(name: str, arguments: Words) -> Iterator[str]:
    """Yield the known arguments without options whose value is data, and without these values."""
    letters = _DATA_LETTERS.get(name, "")
    is_data = False
    for word in arguments:
        before = is_data
        is_data = False
        if before or word is None:
            continue
        if word.startswith("--"):
            option, equals, _ = word.partition("=")
            is_data = option in _DATA_OPTIONS and not equals
            if option in _DATA_OPTIONS:
                continue
        elif word.startswith("-") and (taking := next((at for at, one in enumerate(word) if one in letters), 0)):
            is_data = taking == len(word) - 1
            continue
        yield word


def _place(scheme: str, host: str, port: str | None) -> _Place:
    return host, int(port or _usual_port(scheme))


def _usual_port(scheme: str) -> int:
    """Return the port of an address without one; 0 for a scheme that names no host (`s3://bucket`)."""
    return _PORTS.get(scheme.lower().rpartition("+")[2], 0)


def _addresses(text: str) -> list[_Place]:
    """Return the hosts of all addresses in a text."""
    return [_place(*found.groups()) for found in _ADDRESS.finditer(text)]


def _logins(name: str, arguments: Words) -> Iterator[_Place]:
    """Yield the hosts of ssh and the programs that use it. What they run there is none of them."""
    pattern = _LOGIN if name in {"ssh", "ssh-copy-id"} else _COPY
    before = ""
    usual = _SSH
    for word in filter(None, arguments):
        if number := _LOGIN_PORT.fullmatch(word) or _LOGIN_PORT.fullmatch(f"{before} {word}"):
            usual = int(number[1])
        elif before == "-J":
            jumps = [found for part in word.split(",") if (found := _LOGIN.fullmatch(part))]
            yield from ((found[1], int(found[2] or _SSH)) for found in jumps)
        elif before not in _LOGIN_VALUES and not word.startswith("-"):
            found = pattern.fullmatch(word) or (_LOGIN.fullmatch(word) if name == "sftp" else None)
            yield from _addresses(word) or ([(found[1], usual)] if found else [])
            if name == "ssh":
                return  # the command that runs there follows
        before = word


def _transfer_hosts(arguments: Words, cwd: Path, remotes: _Remotes) -> Iterator[_Place]:
    """Yield the hosts of a transfer that has no address with a scheme: of `host:path`, or of configured remotes.

    `cwd` is the directory in which git works.
    """
    subcommand, *given = plain_arguments(arguments) or [""]
    copies = [found[1] for word in given if (found := _COPY.fullmatch(word)) and not os.path.lexists(cwd / word)]
    if subcommand == "clone" or (given[:1] and _COPY.fullmatch(given[0])):
        yield from ((host, _SSH) for host in copies[:1])
    elif not any("://" in word for word in given[:1]):
        yield from _remote_hosts(remotes(cwd), given)


def _directory(arguments: Words, cwd: Path) -> Path:
    """Return the directory in which `git -C DIRECTORY` works."""
    for at, word in enumerate(arguments[:-1]):
        if word == "-C":
            return cwd / (arguments[at + 1] or "")
    return cwd


def _read_remotes(directory: Path) -> Mapping[tuple[str, str], None]:
    """Return the names and addresses of a repository's remotes."""
    said = run_git(directory, "remote", "-v", timeout_s=_REMOTES_TIMEOUT_S).output
    lines = [line.split() for line in said.splitlines()]
    return {(line[0], line[1]): None for line in lines if line[1:]}


def _remote_hosts(remotes: Mapping[tuple[str, str], None], given: Sequence[str]) -> Iterator[_Place]:
    """Yield the hosts of the remotes that are given by name; without one those of all remotes."""
    named = {name for name, _ in remotes} & set(given)
    for name, url in remotes:
        if not named or name in named:
            yield from _addresses(url) or [(copy[1], _SSH) for copy in [_COPY.fullmatch(url)] if copy]


def _registries(name: str, home: str, env: Mapping[str, str]) -> Iterator[_Place]:
    yield from ((host, _HTTPS) for host in _REGISTRIES.get(name, ()))
    for variable in _VARIABLES.get(name, ()):
        value = env.get(variable, "")
        if variable == "GH_HOST" and (found := _PLAIN.fullmatch(value)):
            yield found[1], int(found[2] or _HTTPS)
        yield from _addresses(value)
    for file in _FILES.get(name, ()):
        for line in _lines(os.path.join(home, file)):
            if _REGISTRY_KEY.search(line) and not line.lstrip().startswith(("#", ";")):
                yield from _addresses(line.replace('"', " ").replace("'", " "))


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_FILE_BYTES).splitlines()
    except OSError:
        return []
