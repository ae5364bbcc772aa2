"""Request files: a pending request, its answer, and requests to stop a team or a member."""
