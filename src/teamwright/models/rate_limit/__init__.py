"""Rate limits: one pace for each credential, shared by all processes of the user."""
