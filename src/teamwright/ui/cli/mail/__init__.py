"""Mail on the command line: the user writes to a member, and reads what is in an inbox."""
