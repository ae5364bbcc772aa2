"""Permission modes of members in life: how far each reaches, and what happens when one is changed."""
