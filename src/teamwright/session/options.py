"""The options of a run, which flags, the Python API and tests fill, and the user's prompt as blocks.

A headless run must end without a person watching it, so it has default caps; caps of flags, a team file or a program
have precedence. Only typed text of a prompt is searched for `@path`: text from a pipe is data, and attaches nothing.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.hooks.hook_definitions import HookSpec
from teamwright.models.model import Model, ModelCard
from teamwright.protocol.errors import StorageError, UsageError
from teamwright.protocol.messages import MAX_IMAGE_BYTES, Block, image_block, image_problem, image_type, text_block
from teamwright.protocol.runtime_tags import ATTACHED_FILE
from teamwright.protocol.usage import NO_CAPS, Budget

if TYPE_CHECKING:
    from teamwright.approvals.request_queue import OnRequest
    from teamwright.session.answer_schema import OutputFormat
    from teamwright.team_records.team_stores import TeamStores


class Options(Struct, frozen=True):
    """The options of a run; None means that the settings decide.

    - `mode_unless_kept`: the mode of a session without a saved mode, with precedence over the settings' mode.
    - `resume`: a session id or its beginning, or `latest`. `fork`: continue in a copy of that session.
    - `adopt`: a team without a lead.
    - `interactive`: a person is at a terminal. `headless`: a run of `-p`.
    - `task_list`: the name of a list that several sessions share.
    - `plan_approval`: the approver of members' plans: lead, human or auto.
    - `agents`: definitions of agents by name. `plugin_dirs`: directories of plugins.
    - `ask`: `wait` or `deny`, for requests without a person at a terminal. `ask_timeout_s`: their deadline in seconds.
    - `mcp_config`: MCP servers, as JSON or as files with it; `strict_mcp_config` excludes all others.
    - `database`: the address of a PostgreSQL database for team state; None: the environment or the settings decide.
    - `backend`: the backend of members: auto, in-process, tmux, detached, or a terminal adapter's name.
    - `trust`: trust the repository's own entries for this run. `given`: names for a script.
    - `settings_file`: a file or JSON text. `setting_sources`: the sources of settings files that are read; None: all.
    - `only_allowed`: allow only `allowed_tools`. Allow rules of settings files are ignored, their deny rules apply.
    - `hooks`: False disables the hooks of settings and definitions. `own_hooks`: functions of the program.
    """

    cwd: Path = field(default_factory=Path.cwd)
    home: str | None = None
    model: str | Model | None = None
    fallback_models: tuple[str, ...] = ()
    """The models that agents use, in this order, when their own model is not available."""
    effort: str | int | None = None
    thinking_tokens: int | None = None
    """The tokens that the lead may think with, where no effort is given; 0: it does not think. A model without such a
    budget uses its nearest level of effort."""
    may_bypass: bool = False
    """True: a client may set bypassPermissions while the session runs."""
    permission_mode: str | None = None
    mode_unless_kept: str | None = None
    add_dirs: tuple[Path, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    asked_tools: tuple[str, ...] = ()
    """Rules that ask, as a client names them for its own tools."""
    only_allowed: bool = False
    settings_file: Path | str | None = None
    setting_sources: tuple[str, ...] | None = None
    mcp_config: tuple[str, ...] = ()
    strict_mcp_config: bool = False
    trust: bool = False
    hooks: bool = True
    own_hooks: tuple[HookSpec, ...] = ()
    setup: str = ""
    """The trigger of `Setup` hooks, which run first: init or maintenance; empty: they do not run."""
    output: OutputFormat | None = None
    """The form of the final answer; None for text."""
    worktree: str | None = None
    """The name of the worktree in which the session works; empty: a new one. None: it works in `cwd`."""
    session_worktree: str = ""
    """The path of that worktree in a member process, whose lead's process has its lease."""
    budget: Budget = field(default_factory=Budget)
    has_default_caps: bool = False
    """True for a program that opens the session: it has the default caps of a headless run."""
    assumed: tuple[str, ...] = ()
    """Caps that come from the defaults of a headless run. The default cap on money refuses no unknown price."""
    calls_per_agent: int | None = None
    """The cap on model calls of each agent but the lead in a headless run, where no setting has one."""
    spent: Budget = NO_CAPS
    """The part of its caps that earlier sessions of this run have used."""
    session_id: str | None = None
    resume: str | None = None
    fork: bool = False
    start_source: str = ""
    """Why the session begins, for hooks of SessionStart: `clear`; empty for `startup` or `resume`."""
    resume_at: str = ""
    """The uuid of the last message with which a resumed session continues; empty: all of it."""
    dropped_prompt: str | None = None
    """The uuid of the one prompt whose turn `resume_at` may leave out; None: any number of turns."""
    adopt: str | None = None
    append_system_prompt: str = ""
    system_prompt: str = ""
    agent: str = ""
    """The agent type of the lead; empty: the lead has none."""
    title: str = ""
    """The title of the session in lists; empty: unchanged."""
    persists: bool = True
    """False removes the files of the session when it ends."""
    teams: bool | None = None
    tools: Sequence[Callable[..., Any]] = ()
    interactive: bool = False
    headless: bool = False
    ask: str | None = None
    ask_timeout_s: float | None = None
    on_request: OnRequest | None = None
    client_mcp: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]] | None = None
    """Sends a JSON-RPC message to an MCP server inside the client program, and returns its answer."""
    given: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] | None = None
    team_name: str | None = None
    task_list: str | None = None
    agents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugin_dirs: tuple[Path, ...] = ()
    plan_approval: str | None = None
    pace_s: float | None = None
    database: str | None = None
    backend: str | None = None
    markdown: bool | None = None
    plain_terminal: bool | None = None
    """True: text alone at a terminal, without redraws and colours."""
    sandbox: str | None = None
    """The mode of the sandbox; None: that of the environment, else of the settings."""
    sandbox_bounds: Mapping[str, Any] | None = None
    """Sandbox settings that the process does not exceed: in a member process those of the lead; None: no bounds."""
    debug: str = ""
    """The categories of the debug log, separated by commas, or `all`; empty: the environment decides."""
    stores: TeamStores | None = None
    """The stores of the team; None: files in the home."""


HEADLESS = Budget(usd=20.0, tokens=5_000_000, turns=200, minutes=120)
"""The default caps. Model calls are the lead's; every other agent may make as many."""

_CAP_FLAGS = {
    "turns": "--max-turns",
    "tokens": "--max-tokens",
    "minutes": "--timeout",
    "usd": "--max-budget-usd",
}


def with_default_caps(options: Options, of_user: Budget) -> Options:
    """Return the options of a headless run or a program with a cap of each kind; other options unchanged.

    `of_user` are the settings `budget.run`, which replace default caps. An unlimited budget gets none.
    """
    requested = options.budget
    if requested.is_unlimited or not (options.headless or options.has_default_caps):
        return options
    caps = requested.with_defaults(of_user.with_defaults(HEADLESS))
    assumed = tuple(name for name in _CAP_FLAGS if not requested.has(name))
    calls = options.calls_per_agent or max(HEADLESS.turns or 0, caps.turns or 0)
    return replace(options, budget=caps, assumed=assumed, calls_per_agent=calls)


def mark_portions(options: Options, of_user: Budget) -> Budget:
    """Return the amounts after each of which the user at a terminal is asked: the default caps of a headless run.

    `of_user` are the settings `budget.run`, which replace them. A cap of a flag has no mark.
    """
    if not options.interactive:
        return NO_CAPS
    portions = of_user.with_defaults(HEADLESS).as_json()
    return Budget(**{name: cap for name, cap in portions.items() if not options.budget.has(name)})


def calls_per_agent(options: Options, defaults: Budget) -> int | None:
    """Return the cap on model calls of each agent but the lead, where no setting has one; None: no cap.

    A member process has the cap of its lead's process among its options.
    """
    return options.calls_per_agent if defaults.turns is None else None


def default_caps_line(budget: Budget, assumed: Sequence[str], card: ModelCard) -> str:
    """Return a line with the run's default caps and the flags that raise them; empty when all caps were given."""
    words = {
        "turns": f"{budget.turns or 0} model calls of the lead and of each agent",
        "tokens": f"{budget.tokens or 0:,} tokens",
        "minutes": f"{(budget.minutes or 0) / 60:g} h",
        "usd": f"{budget.usd or 0:g} USD" if card.usd_in else "",
    }
    names = [name for name in assumed if words[name]]
    if not names:
        return ""
    return (
        f"default caps: {', '.join(words[one] for one in names)} (raise: {' '.join(_CAP_FLAGS[one] for one in names)})"
    )


LONGEST_FILE = 256_000
"""Maximum bytes of an attached text file; agents read longer ones themselves."""

BUILT_IN_PROMPTS = {
    "/init": "Read this repository and write AGENTS.md for agents that work in it, or improve the file that exists: "
    "how to build, to test and to check the style, the structure, and the rules that are not obvious from the code. "
    "At most 60 lines. Only facts that you have checked.",
    "/review": "Review the changes of this repository that are not committed. Look for errors first, then for what is "
    "hard to understand. Name file and line of each finding, most serious first. Change nothing.",
}
"""Commands that are prompts to the lead. The text after the command is appended."""

_AT = re.compile(r'(?<![\w@/.])@(?:"([^"\n]+)"|([^\s"\'`<>|]+))')
TRAILING_SIGNS = ".,;:!?)]}…"
"""Signs after the name of a file in a text that do not belong to it."""


def read_prompt(text: str | None, stdin_text: str | None, cwd: Path) -> list[Block]:
    """Return the blocks of a prompt: text of stdin, then the typed text, then the files that it attaches.

    A typed prompt that is only `@FILE` is read from that file. Raises UsageError for an empty prompt, for a missing
    `@FILE`, and for a file that cannot be attached; StorageError when it cannot be read.
    """
    typed, attached = _typed((text or "").strip(), cwd)
    parts = [part for part in ((stdin_text or "").strip("\n"), typed) if part.strip()]
    if not parts:
        raise UsageError(
            "usage",
            "the prompt is empty",
            looked_at=[("looked at", "the argument and stdin")],
            do=['teamwright -p "…"', "teamwright -p @FILE", "echo … | teamwright -p"],
            note="nothing was started",
        )
    return [text_block("\n\n".join(parts)), *(read_attachment(path, cwd) for path in attached)]


def missing_mentions(text: str, cwd: Path) -> list[str]:
    """Return the names after `@` in a typed prompt that name no file and no directory, without punctuation."""
    names = {(match[1] or match[2]).rstrip(TRAILING_SIGNS): None for match in _AT.finditer(text)}
    return [name for name in names if name and not _is_there(_path(name, cwd))]


def read_attachment(path: Path, cwd: Path) -> Block:
    """Return a file as a block: an image, or a text between tags that name it. Raises UsageError, StorageError."""
    display_path = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
    raw = _read(path, max(LONGEST_FILE, MAX_IMAGE_BYTES))
    kind = image_type(raw)
    if kind is not None:
        if why := image_problem(raw):
            raise _not_text_error(display_path, f"it {why}")
        return image_block(kind, base64.b64encode(raw).decode("ascii"))
    if b"\0" in raw[:8192]:
        raise _not_text_error(display_path, "it is neither text nor an image")
    if len(raw) > LONGEST_FILE:
        raise _not_text_error(display_path, f"it is larger than {LONGEST_FILE // 1000:,} kB")
    return {"type": ATTACHED_FILE, "path": display_path, "text": raw.decode("utf-8", "replace").rstrip()}


def _typed(text: str, cwd: Path) -> tuple[str, list[Path]]:
    """Return the typed text and the files that it attaches; the text of the file when it is only `@FILE`."""
    if text.startswith("@") and "\n" not in text:
        whole = _path(text[1:].strip('"'), cwd)
        if _is_file(whole):
            raw = _read(whole, MAX_IMAGE_BYTES)
            if image_type(raw) is not None:
                return text, [whole]
            return _prompt_of(raw, text), []
        if not re.search(r"\s", text) and "://" not in text:  # `@server:uri` names a resource
            raise UsageError(
                "usage",
                f"the prompt is {text}, and there is no such file",
                looked_at=[("looked at", str(whole))],
                note="nothing was started",
            )
    found: dict[Path, None] = {}
    for match in _AT.finditer(text):
        path = _existing(match[1], match[2], cwd)
        if path is not None:
            found[path] = None
    return text, list(found)


def _prompt_of(raw: bytes, text: str) -> str:
    if b"\0" in raw[:8192]:
        raise _not_text_error(text[1:], "it is not text")
    return raw.decode("utf-8", "replace").removeprefix("\ufeff").strip()


def _existing(quoted: str | None, bare: str | None, cwd: Path) -> Path | None:
    """Return the named file, with or without the punctuation after it; None without a file."""
    name = quoted or bare or ""
    for candidate in (name, name.rstrip(TRAILING_SIGNS)):
        path = _path(candidate, cwd)
        if candidate and _is_file(path):
            return path
    return None


def _path(name: str, cwd: Path) -> Path:
    return cwd / os.path.expanduser(name)


def _is_file(path: Path) -> bool:
    """Return True for a readable path of a file; text that only looks like a path is no error."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_there(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def _read(path: Path, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(most + 1)
    except OSError as problem:
        raise StorageError(
            "io-failed", f"{path} cannot be read: {problem.strerror}", note="nothing was started"
        ) from problem


def _not_text_error(display_path: str, why: str) -> UsageError:
    return UsageError(
        "usage",
        f"@{display_path} cannot be attached: {why}",
        do=["name the path without @, and the agents read what they need of it"],
        note="nothing was started",
    )


_SLASH_COMMAND = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]*)(?:\s+(.*))?", re.DOTALL)


def parse_slash_command(text: str) -> tuple[str, str] | None:
    """Return the name and the arguments of a slash command; None for other texts, such as a path."""
    found = _SLASH_COMMAND.fullmatch(text.strip())
    return (found[1], (found[2] or "").strip()) if found is not None else None
