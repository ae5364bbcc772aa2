"""The lines that show a request at a terminal, with the keys that answer it; and reports: tasks, cost, context, modes.

Every interface uses `request_lines`, so a request looks the same everywhere. `request_dialog` parses the answer. The
reports are the same at the lead's and at members' terminals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.events import RequestOpened
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.ui.display_text import clean, clean_exact, exact_line, fold_lines, one_line, window_size
from teamwright.ui.event_text import first_line
from teamwright.ui.terminal.events import EventFormatter, display_name
from teamwright.ui.terminal.styles import paint_lines, styled_diff

if TYPE_CHECKING:
    from teamwright.agent.context_window import ContextView
    from teamwright.sandbox.policy import SandboxReport
    from teamwright.session.result import TaskResult
    from teamwright.views.cost import CostRow, CostView

EDITABLE_KEY = "command"
"""The input key with a shell command, which the person may edit before it runs."""

MAX_LINES, MAX_CHARS = 200, 40_000
"""The maximum lines and characters shown at once; of a longer request only both ends are shown, and all on demand."""

HEAD_LINES, TAIL_LINES = 60, 20

COMMAND_LINES, OTHER_LINES = 40, 12
"""The lines of a command that are shown at once on a small screen, and those that a screen needs for the rest."""

MAX_BLANK_LINES = 2
"""The most blank lines in a row of a command that are shown as they are."""


def request_lines(request: RequestOpened, formatter: EventFormatter, *, more: str = "", width: int = 0) -> list[str]:
    """Return the lines of a request: agent, full command, diff or plan, the rule that asked, what "always" stores,
    deadline.

    `width` is that of the window in columns: all lines but the subject are broken between words. 0 breaks no line.
    """
    paint = formatter.paint
    head = f"{paint('yellow', '?')} {formatter.name(request.member, request.owner)} {_request_verb(request)}{more}"
    body = [f"    {line}" for line in paint_lines(styled_diff(subject_lines(request)), paint)]
    options = _options(request)
    facts = {
        "rule": "" if request.kind == "question" else exact_line(request.rule),
        "always": exact_line(request.always),
        "until": f"{datetime.fromtimestamp(request.deadline):%H:%M:%S}, then it is denied" if request.deadline else "",
    }
    rows = [f"  {name:<7} {value}" for name, value in facts.items() if value]
    return [head, *body, *(fold_lines([*options, *rows], width) if width else [*options, *rows])]


def request_line(request: RequestOpened, formatter: EventFormatter) -> str:
    """Return the request on one line."""
    what = first_line(request.what, counts=may_edit(request))
    who = formatter.name(request.member, request.owner)
    return f"{who} {_request_verb(request)}" + (f": {what}" if what else "")


def prompt_lines(
    request: RequestOpened, formatter: EventFormatter, waiting: int = 0, *, short: bool = False
) -> list[str]:
    """Return the request and its keys for a terminal. `short`: of a long request only its ends, and how to see all."""
    if short and is_long(request):
        request = replace(request, what=_shorten_middle(request))
    more = f"   ({waiting} more wait{'s' if waiting == 1 else ''})" if waiting else ""
    keys = fold_lines((f"  {line}" for line in _keys(request)), formatter.width)
    dim = [formatter.paint("dim", line) for line in keys]
    return [*request_lines(request, formatter, more=more, width=formatter.width), *dim]


def prompt_label(request: RequestOpened) -> str:
    """Return the label before the answer."""
    if request.kind == "question":
        return "answer: "
    if request.kind in {"plan", "review"}:
        return "approve? [y/n] "
    if request.kind == "budget":
        return "go on? [y/n] "
    return "allow? [y/n/a] " if request.always else "allow? [y/n] "


def subject_lines(request: RequestOpened) -> list[str]:
    """Return the whole subject without colours. In text that would run, every blank and joiner is made visible."""
    text = clean_exact(request.what) if request.kind == "permission" else clean(request.what)
    lines = text.rstrip("\n").split("\n")
    return _without_blank_runs(lines) if may_edit(request) else lines


def may_edit(request: RequestOpened) -> bool:
    """Return True when the person may edit the command as one line of text."""
    return request.kind == "permission" and isinstance(request.input.get(EDITABLE_KEY), str)


def is_long(request: RequestOpened) -> bool:
    """Return True when only the ends of the request are shown at first.

    That is a command of more than 40 lines that does not fit on the screen, another request of more than 200 lines, and
    any of more than 40,000 characters.
    """
    return len(subject_lines(request)) > _most_lines(request) or len(request.what) > MAX_CHARS


def _most_lines(request: RequestOpened) -> int:
    return max(COMMAND_LINES, window_size().lines - OTHER_LINES) if may_edit(request) else MAX_LINES


def _shorten_middle(request: RequestOpened) -> str:
    lines = request.what.rstrip("\n").split("\n")
    most = _most_lines(request)
    lines = _without_blank_runs(lines) if may_edit(request) else lines
    if len(lines) > most:
        tail = min(TAIL_LINES, most // 3)
        head = min(HEAD_LINES, most - tail)
        left = len(lines) - head - tail
        lines = [*lines[:head], f"… {left} more lines: v shows all of it", *lines[-tail:]]
    each = MAX_CHARS // len(lines)
    cut = [line if len(line) <= each else f"{line[:each]} … {len(line) - each} more characters" for line in lines]
    return "\n".join(cut)


def _without_blank_runs(lines: list[str]) -> list[str]:
    """Return the lines of a command with long runs of blank lines as one line, so that they move nothing away."""
    found: list[str] = []
    for is_blank, run in groupby(lines, lambda line: not line.strip()):
        some = list(run)
        long = is_blank and len(some) > MAX_BLANK_LINES
        found += [f"… {len(some)} blank lines"] if long else some
    return found


def _options(request: RequestOpened) -> list[str]:
    """Return the numbered answers, with their meanings where given."""
    options: object = request.input.get("options")
    about = cast("Sequence[object]", options) if isinstance(options, list | tuple) else ()
    lines: list[str] = []
    for number, label in enumerate(request.options, 1):
        one = about[number - 1] if number <= len(about) else None
        meaning = cast("Mapping[str, object]", one).get("description") if isinstance(one, Mapping) else None
        more = f": {one_line(meaning)}" if isinstance(meaning, str) and meaning.strip() else ""
        lines.append(f"    {number}  {one_line(label)}{more}")
    return lines


def _request_verb(request: RequestOpened) -> str:
    match request.kind:
        case "question":
            return "asks"
        case "plan":
            return "asks for approval of its plan"
        case "review":
            return "asks for a review of its finished work"
        case "budget":
            return "waits at a mark of its usage"
        case _:
            return f"wants to use {clean(request.tool)}"


def _keys(request: RequestOpened) -> list[str]:
    if request.kind == "question":
        several = "numbers, as in 1, 2," if request.input.get("multiSelect") is True else "a number,"
        hint = f"{several} or your own words" if request.options else "your answer, in your own words"
        return [f"{hint} · /later · /requests lists what waits"]
    later = "l later · /requests lists what waits"
    if request.kind in {"plan", "review"}:
        return [f"y approve · n FEEDBACK sends it back · {later}", *_grant_lines(request)]
    if request.kind == "budget":
        return [f"y go on · n end the turn · {later}"]
    always = " · a always" if request.always else ""
    if always and rule_update(request, "local"):
        always += " (a local, project or user: in a file)"
    edit = "e edit it first · " if may_edit(request) else ""
    return [f"y yes · n no · n REASON{always}", *_grant_lines(request), edit + later]


def _grant_lines(request: RequestOpened) -> list[str]:
    return [f"{offer.key:<2} yes, {offer.text}" for offer in suggested_grants(request)]


class SuggestedGrant(Struct, frozen=True):
    """A suggestion: the key that grants it together with a yes, its meaning, and the update for the wire."""

    key: str
    text: str
    update: Mapping[str, Any]


def suggested_grants(request: RequestOpened) -> tuple[SuggestedGrant, ...]:
    """Return the suggestions of a request, each with a separate key, without rules that "always" stores anyway."""
    grants: list[SuggestedGrant] = []
    for update in request.suggestions:
        letter, words = _describe_update(update, request.owner or request.member)
        if not words or (letter == "r" and request.always):
            continue
        same = sum(offer.key.rstrip("0123456789") == letter for offer in grants)
        grants.append(SuggestedGrant(letter + (str(same + 1) if same else ""), words, update))
    return tuple(grants)


RULE_DESTINATIONS = {
    "session": "session",
    "local": "localSettings",
    "project": "projectSettings",
    "user": "userSettings",
}
"""The places where a rule can be stored, by the word for people, with the value on the wire."""


def rule_update(request: RequestOpened, destination: str) -> Mapping[str, Any] | None:
    """Return the update that "always" stores, in a place of `RULE_DESTINATIONS`; None when no rule is offered."""
    rule, separator, where = request.always.rpartition(" (")
    if not separator or not where.endswith(")"):
        return None
    return {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": RULE_DESTINATIONS[destination]}


_DESTINATION_TEXT = {
    "session": "until this session ends",
    "localSettings": "kept in .teamwright/settings.local.json",
    "projectSettings": "kept in .teamwright/settings.json",
    "userSettings": "kept in your own settings.json",
}

_MODES = {
    "bypassPermissions": "nothing is asked",
    "dontAsk": "what would be asked is denied",
    "plan": "it only reads and plans",
    "default": "all but reading is asked",
}


def _describe_update(update: Mapping[str, Any], owner: str) -> tuple[str, str]:
    """Return the key and the meaning for this member; an empty meaning for an unknown update."""
    destination = _DESTINATION_TEXT.get(str(update.get("destination", "session")))
    if destination is None:
        return "", ""
    match update.get("type"):
        case "addDirectories" if directories := _texts(update.get("directories")):
            return "d", f"and may use {', '.join(directories)}, {destination}"
        case "setMode" if update.get("mode") == "acceptEdits":
            if owner in {LEAD, LEAD_ALIAS}:
                return "m", f"and edits of the lead and of members in its mode are not asked about, {destination}"
            return "m", f"and edits of {one_line(owner)} alone are not asked about, until it ends"
        case "setMode" if mode := one_line(str(update.get("mode") or "")):
            about = f": {_MODES[mode]}" if mode in _MODES else ""
            return "m", f"and mode {mode}{about}, {destination}"
        case "addRules" if rules := list(_rules(update)):
            behavior = one_line(str(update.get("behavior", "allow")))
            if behavior == "allow" and all(rule.startswith("Unconfined(") for rule in rules):
                return "u", f"outside the sandbox: {', '.join(rules)}, {destination}"
            return "r", f"and {behavior} {', '.join(rules)}, {destination}"
        case _:
            return "", ""


def _texts(value: object) -> list[str]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    return [exact_line(item) for item in items if isinstance(item, str) and item]


def _rules(update: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rules in rule syntax: `Bash(git push:*)`."""
    rules: object = update.get("rules")
    for rule in cast("Sequence[object]", rules) if isinstance(rules, list | tuple) else ():
        if isinstance(rule, str) and rule:
            yield exact_line(rule)
        elif isinstance(rule, dict):
            body = cast("Mapping[str, object]", rule)
            tool, content = body.get("toolName"), body.get("ruleContent")
            if isinstance(tool, str) and tool:
                yield exact_line(f"{tool}({content})" if isinstance(content, str) and content else tool)


_TASK_MARKS = {"completed": "✓", "in_progress": "▸"}


def task_lines(tasks: Sequence[TaskResult]) -> list[str]:
    """Return the lines of the task list."""
    return [
        f"  {_TASK_MARKS.get(task.status, '·')} #{task.id:<3} {one_line(task.subject)}"
        + (f"  ({display_name(task.owner)})" if task.owner else "")
        + ("  unverified" if task.unverified else "")
        + (f"  {task.integration}" if task.integration is not None else "")
        + "".join(f"  {one_line(note)}" for note in task.notes)
        for task in tasks
    ] or ["  no tasks"]


def cost_lines(cost: CostView, caps: str = "") -> list[str]:
    """Return the cost by member, task and model, and the total with its caps."""
    lines: list[str] = []
    for line in cost.members:
        lines += [_usage_line(line.name, line), *(_usage_line(f"└ {one.name}", one) for one in line.below)]
    for line in cost.tasks:
        lines.append(_usage_line(f"#{line.name}" if line.name else "no task", line, line.subject))
    if len(cost.models) > 1:
        lines += [_usage_line(line.name, line) for line in cost.models]
    lines += [_usage_line(line.name, line, "of the above") for line in cost.beside]
    return [*lines, _usage_line("all", cost.total, f"caps: {caps}" if caps else "")]


def _usage_line(name: str, line: CostRow, about: str = "") -> str:
    words = f"  {clean(name):<14} {line.usage}"
    return f"{words}  {one_line(about)}" if about else words


def context_lines(view: ContextView) -> list[str]:
    """Return the contents of a context window, and when it is compacted."""
    rows = [*((part.name, part.tokens) for part in view.parts), ("free", view.free)]
    lines = [f"  {display_name(view.member)}: {clean(view.model)}, {view.used:,} of {view.window:,} tokens"]
    lines += [f"  {name:<22} {tokens:>11,}  {100 * tokens / view.window:5.1f} %" for name, tokens in rows]
    how = "the sum as the service counted it, what is newer by bytes / 4" if view.measured else "all is bytes / 4"
    lines.append(f"  {how}; the parts by their bytes")
    if view.compacts_at is None:
        return [*lines, "  it is compacted when the service says that it is full, or by /compact"]
    return [*lines, f"  it is compacted at {view.compacts_at:,} tokens: {view.left:,} more"]


def sandbox_lines(report: SandboxReport | None) -> list[str]:
    """Return what confines the session's commands, and each limit of it."""
    if report is None:
        return []
    return [f"  sandbox {clean(report.summary)}", *(f"    {clean(limit)}" for limit in report.limits)]


def mode_meaning_lines() -> list[str]:
    """Return all modes with their meanings."""
    from teamwright.agent.plan_mode import describe_modes  # the lines of a request need none

    return [f"  {name:<18} {about}" for name, about in describe_modes()]
