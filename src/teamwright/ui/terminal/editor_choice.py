"""Which editor a terminal gets: one that edits lines, where the cursor can be moved, else the kernel's own line.

The library behind the first loads only then. Knows editors; knows no session.
"""

from __future__ import annotations

import os
import sys

from teamwright.ui.terminal.deferred_editor import DeferredEditor
from teamwright.ui.terminal.editor import Editor, EditorCallbacks, is_plain_terminal
from teamwright.ui.terminal.plain_editor import PlainEditor


def make_editor(callbacks: EditorCallbacks, *, deferred: bool = False) -> Editor:
    """The editor for the terminal that this process has; `late`: what it loads waits for the first key."""
    if is_plain_terminal(os.environ) or not sys.stdin.isatty():
        return PlainEditor(callbacks, sys.stdin.fileno())
    return DeferredEditor(callbacks, sys.stdin.fileno(), _line_editor) if deferred else _line_editor(callbacks)


def _line_editor(callbacks: EditorCallbacks) -> Editor:
    from teamwright.ui.terminal.line_editor import LineEditor

    return LineEditor(callbacks)
