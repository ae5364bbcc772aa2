"""What stands below the line that is being typed: members, tasks, and one line about the session."""
