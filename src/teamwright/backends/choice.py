"""The choice of a backend for members: the named one, or the one that `auto` selects, with the reason.

The environment is a parameter. A named backend is used or refused with the reason, never silently replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.ids import did_you_mean
from teamwright.protocol.members import IN_PROCESS

EXPLICIT_REASON = "it was asked for"
TMUX = "tmux"
AUTO = "auto"
REMOTE_BACKEND = "remote"


class BackendEnvironment(Struct, frozen=True):
    """The environment of the choice. `environ`: the lead's environment; `at_terminal`: a person sits at our terminal;

    `tmux_problem`: why tmux cannot be used, empty when it can; `adapter_problems`: the same for each terminal adapter.
    """

    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    at_terminal: bool = False
    tmux_problem: str = ""
    adapter_problems: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def in_tmux(self) -> bool:
        """True when the lead's environment says that it runs in a tmux pane."""
        return bool(self.environ.get("TMUX") and self.environ.get("TMUX_PANE"))


class SelectedBackend(Struct, frozen=True):
    """The choice. `backend` is `in-process`, `tmux` or the name of a terminal adapter; `reason` is a clause for people
    and models.
    """

    backend: str
    reason: str


def is_remote(backend: str) -> bool:
    """Return True for the backend of other machines: `remote`, or `remote:LABEL`."""
    return backend.partition(":")[0] == REMOTE_BACKEND


_AutoRule = tuple[Callable[[BackendEnvironment], bool], str, Callable[[BackendEnvironment], str]]

_AUTO_RULES: tuple[_AutoRule, ...] = (
    (lambda found: not found.at_terminal, IN_PROCESS, lambda _: "the lead has no terminal"),
    (lambda found: not found.in_tmux, IN_PROCESS, lambda _: "this terminal is not in tmux"),
    (lambda found: bool(found.tmux_problem), IN_PROCESS, lambda found: found.tmux_problem),
    (lambda _: True, TMUX, lambda _: "this terminal is in tmux"),
)
"""The rules of `auto`: the first true row decides."""


def choose_backend(setting: str, environment: BackendEnvironment) -> SelectedBackend:
    """Return the backend for members under this setting: `auto`, `in-process`, `tmux` or a terminal adapter's name.

    Raises UsageError for an unknown name, CannotStart (`backend`) for a backend that cannot be used here.
    """
    if setting == AUTO:
        return next(
            SelectedBackend(place, why(environment)) for applies, place, why in _AUTO_RULES if applies(environment)
        )
    if setting == IN_PROCESS:
        return SelectedBackend(IN_PROCESS, EXPLICIT_REASON)
    known = {TMUX: environment.tmux_problem, **environment.adapter_problems}
    if setting not in known:
        names = [AUTO, IN_PROCESS, *known]
        raise UsageError(
            "usage",
            f"{setting!r} is no backend for members",
            looked_at=[("backends", ", ".join(names))],
            do=did_you_mean(setting, names),
            note="nothing was started",
        )
    if known[setting]:
        raise CannotStart(
            "backend",
            f"members cannot be started in {setting}: {known[setting]}",
            do=[
                f"choose another backend: --backend {AUTO}, --backend {IN_PROCESS}, or the setting members.backend",
                f"or see to it that {setting} can be used: teamwright doctor",
            ],
            note="nothing was started",
        )
    return SelectedBackend(setting, EXPLICIT_REASON)
