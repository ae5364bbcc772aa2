"""Commands that set up and explain: what is found here, what may be used, and why."""
