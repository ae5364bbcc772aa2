"""The scripted model: the file format, its templates, what it heard, the player of a part, the model itself."""
