"""A member process in a team whose lead is another product."""
