"""Tools of planning: entering plan mode, and handing in the plan."""
