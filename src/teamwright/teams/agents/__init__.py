"""Sub-agents of a session, in the foreground and in the background: started, told, moved, stopped, gone on with."""
