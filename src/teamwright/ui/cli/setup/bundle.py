"""`teamwright doctor --bundle`: a file for a bug report; says what is in it and how to look at it before it is sent."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path

from teamwright.app.looking.bundling import Part, Wanted, bundle_path, collect, write_bundle
from teamwright.app.looking.bundling.writing import LEFT_OUT
from teamwright.app.looking.doctor import Subject
from teamwright.ui.cli.output import WIDTH, say, say_json, say_table


def make_bundle(subject: Subject, given: Path | None, *, as_json: bool) -> int:
    """Write the bundle and list it. Raises UsageError for a file that is there, StorageError."""
    parts = collect(Wanted(subject))
    path = bundle_path(subject.home, given)
    write_bundle(path, parts, own=given is None)
    if as_json:
        rows = [{"name": part.name, "about": part.about, "bytes": part.size} for part in parts]
        say_json({"file": str(path), "parts": rows, "left_out": LEFT_OUT})
    else:
        _show(path, parts)
    return 0


def _show(path: Path, parts: list[Part]) -> None:
    say_table(("in it", "bytes", "what"), [(part.name, f"{part.size:,}", part.about) for part in parts])
    say()
    for line in textwrap.wrap(f"Left out: {LEFT_OUT}.", WIDTH):
        say(line)
    say(f"Only you can read it: {path}")
    say("Nothing was sent. Look at it before you do:")
    say(f"  python3 -m zipfile -l {shlex.quote(str(path))}")
    say(f"  unzip -p {shlex.quote(str(path))} | less")
