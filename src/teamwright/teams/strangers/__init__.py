"""Members that another program runs and this process started: known by what that program's files say."""
