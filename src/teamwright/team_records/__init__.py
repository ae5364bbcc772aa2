"""Records of teams: what files and rows say about a team, its members and its state, for every process."""
