"""Tools that fetch from the network."""
