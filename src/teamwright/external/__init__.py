"""Members that another product runs, and teams that another product leads: known by their files alone."""
