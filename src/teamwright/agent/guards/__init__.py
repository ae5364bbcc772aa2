"""Guards of a turn: how often it asks again, what it keeps of an answer that was cut short, when it repeats itself."""
