"""The way back: what a session changed in files, who did it, and how a prompt's edits are taken back."""
