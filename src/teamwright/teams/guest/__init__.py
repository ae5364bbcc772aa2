"""A member of ours in a team that another program leads: its place, its mail, what it takes from that lead."""
