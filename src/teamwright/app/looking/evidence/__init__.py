"""What the files of one team say, each kind read by its own module; nothing here locks or changes anything."""
