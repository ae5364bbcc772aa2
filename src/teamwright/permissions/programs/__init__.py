"""Programs that only read: their options, the languages of some of them, and which files they read."""
