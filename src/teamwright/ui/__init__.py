"""User interfaces: command line, headless runs, terminal, a member's terminal and the demo."""
