"""The face of a member's own process: what its pane shows, and what a person types there."""
