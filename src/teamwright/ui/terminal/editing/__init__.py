"""Where a person types at a terminal: the contract of an editor, the three there are, which one; what Tab offers."""
