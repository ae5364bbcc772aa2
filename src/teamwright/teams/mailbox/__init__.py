"""Mail of a team: sending, wake order, delivery into a conversation, undelivered mail and the ping-pong guard."""
