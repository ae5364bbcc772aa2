"""The demo: a scripted team that reads a repository; its script, its screen, its report."""
