"""Backends: where a teammate runs (tmux, a detached process, a terminal adapter), and its connection to the lead."""
