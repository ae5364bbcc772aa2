"""The process of one member: how the lead starts it, how it connects to the lead, and how it ends."""
