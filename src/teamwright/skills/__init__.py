"""Skills, slash commands and notes of agents: their files, templates and catalog."""
