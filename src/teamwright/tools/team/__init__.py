"""Tools of a team: making one, spawning, writing, looking, asking the user."""
