"""The program of one member: it connects to its lead, works and ends, here or on another machine."""
