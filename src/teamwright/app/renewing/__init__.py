"""What begins a new prefix in life: another model, and configuration that is read again."""
