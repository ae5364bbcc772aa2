"""`teamwright permissions`: what may run, and why. Knows what a check found; decides nothing."""
