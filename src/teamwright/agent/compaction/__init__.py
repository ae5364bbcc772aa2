"""Compaction: the older part of a long conversation is replaced by a summary."""
