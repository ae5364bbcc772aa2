"""Tools that fetch pages from the network."""
