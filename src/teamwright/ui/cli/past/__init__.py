"""Commands that tell what was: what happened, and what it cost."""
