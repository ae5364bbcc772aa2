"""Sockets between processes of one user on one machine: where they lie, and what goes over them."""
