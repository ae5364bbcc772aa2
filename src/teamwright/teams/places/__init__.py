"""Places: where a member's process is started, outside of this process.

A place (`place.Place`) opens a pane, a tab or a process for a member, says whether it still lives, and closes it. Below
is the terminal multiplexer or whatever program a recipe names. Knows nothing of rosters, handshakes, mail and tasks.
"""
