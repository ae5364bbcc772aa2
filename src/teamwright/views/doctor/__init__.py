"""The findings of `teamwright doctor`, by subject."""
