"""Status of a team: the state of each member from events and files, with one table of states."""
