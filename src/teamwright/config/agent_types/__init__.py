"""Agent types: definitions in files, flags and plugins, and which of several with one name is used."""
