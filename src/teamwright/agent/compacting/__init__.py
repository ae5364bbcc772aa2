"""Compaction: a conversation that grows too long goes on from a summary of itself."""
