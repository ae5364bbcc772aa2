"""The scribe and its three parts: tasks, roster, mail."""
