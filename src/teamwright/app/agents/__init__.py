"""Agent definitions: read from files, flags and plugins, put in order, and made part of what a spawn asks for."""
