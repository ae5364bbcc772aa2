"""Edit history: which agent changed which file, and undo.

Depends on the journal that the file tools write. Edits by shell commands are not in it.
"""
