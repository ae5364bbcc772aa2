"""Teams and sessions that nobody drives now: who goes on with one, what is removed, and what is too old to keep."""
