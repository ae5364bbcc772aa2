"""Looking at one member as at the lead: what it was told and said, what it says from now on, words to it alone."""
