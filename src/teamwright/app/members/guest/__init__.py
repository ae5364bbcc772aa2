"""Our process as a member of a team that another program leads: started with its flags, and without a spawn file."""
