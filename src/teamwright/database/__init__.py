"""The stores of teams in PostgreSQL, for teams over several machines. Loaded only with `--database`."""
