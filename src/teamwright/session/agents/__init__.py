"""The agents of a session: built from a type, a model, a policy and tools."""
