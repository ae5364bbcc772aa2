"""Mail in a team: who may write to whom, what wakes a member at its desk, what it was told, what goes back."""
