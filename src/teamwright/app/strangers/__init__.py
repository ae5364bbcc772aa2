"""Programs of other products as members: the commands that a person set, and how one is started."""
