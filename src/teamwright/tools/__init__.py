"""The tools of agents: one module for each, with the text that models read in a `.md` file beside it."""
