"""Programs that only read: the options of each, its language where it has one, and its file operands."""
