"""Which editor a terminal gets: one that edits lines, where the cursor can be moved, else the kernel's own line.

The library behind the first loads only then. Knows editors; knows no session.
"""

from __future__ import annotations

import os
import sys

from teamwright.ui.terminal.editing.editor import Editor, Wiring, is_plain
from teamwright.ui.terminal.editing.late_editor import LateEditor
from teamwright.ui.terminal.editing.plain_editor import PlainEditor


def editor_for(wiring: Wiring, *, late: bool = False) -> Editor:
    """The editor for the terminal that this process has; `late`: what it loads waits for the first key."""
    if is_plain(os.environ) or not sys.stdin.isatty():
        return PlainEditor(wiring, sys.stdin.fileno())
    return LateEditor(wiring, sys.stdin.fileno(), _line_editor) if late else _line_editor(wiring)


def _line_editor(wiring: Wiring) -> Editor:
    from teamwright.ui.terminal.editing.line_editor import LineEditor

    return LineEditor(wiring)
