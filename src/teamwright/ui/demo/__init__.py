"""The demo: a scripted team that reads a repository and reports."""
