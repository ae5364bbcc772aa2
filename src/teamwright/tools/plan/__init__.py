"""Tools that enter and leave plan mode."""
