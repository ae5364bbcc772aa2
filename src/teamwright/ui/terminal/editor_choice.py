"""The choice of an editor: line editing on terminals with a movable cursor, else the lines of the kernel.

The library for line editing loads only when it is needed.
"""

from __future__ import annotations

import os
import sys

from teamwright.ui.terminal.deferred_editor import DeferredEditor
from teamwright.ui.terminal.editor import Editor, EditorCallbacks, is_plain_terminal
from teamwright.ui.terminal.plain_editor import PlainEditor


def make_editor(callbacks: EditorCallbacks, *, deferred: bool = False) -> Editor:
    """Return the editor for this process's terminal. With `deferred`, its library loads at the first key."""
    if is_plain_terminal(os.environ) or not sys.stdin.isatty():
        return PlainEditor(callbacks, sys.stdin.fileno())
    return DeferredEditor(callbacks, sys.stdin.fileno(), _line_editor) if deferred else _line_editor(callbacks)


def _line_editor(callbacks: EditorCallbacks) -> Editor:
    from teamwright.ui.terminal.line_editor import LineEditor

    return LineEditor(callbacks)
