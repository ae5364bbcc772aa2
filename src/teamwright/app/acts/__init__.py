"""What a person, or a program, has done with an agent by name, wherever it lives: in this process, or in its own."""
