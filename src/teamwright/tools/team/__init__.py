"""Tools of a team: creating and deleting it, sending messages, listing agents, answering requests."""
