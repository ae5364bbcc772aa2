"""Skills and slash commands of a session: preparing the prompt of a call and running it."""
