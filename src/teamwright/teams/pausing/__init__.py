"""Pausing: what keeps a member from its next call though its work is not done, and what lets it go on."""
