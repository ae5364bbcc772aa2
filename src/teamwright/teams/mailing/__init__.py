"""Mail in a team: who may write to whom, what waits at a member's desk and wakes it, what it was told, what goes back."""
