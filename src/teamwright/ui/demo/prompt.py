"""What the lead of a demo is asked: by the script's own words, and by a real model's."""

SCRIPTED_PROMPT = "Show what a team can find out about this repository. The team is called {team}."

LIVE_PROMPT = """\
Find out with a team of three which files a newcomer should read first in this repository, and why.

Make a team called {team} with the teammates surveyor, historian and tester, and these tasks:
1. Files and languages: text files, lines, languages.
2. Files changed most: source files by changes in the last year (counted back from HEAD), and how large they are.
3. Tests and untested changes: test files and cases; how often source changed without a test.
4. Tests of the five files changed most (after 2 and 3): commits, how many without a test, which test changes with it.
5. TODO markers: TODO and FIXME markers, the oldest first (after 1).
6. What to read first: join 4 and 5 yourself.

Read only: use git, grep, awk and the reading tools. Run nothing of the repository. Name or rate no person.
End with a report of at most 25 lines of 80 columns: for each number say which command gave it.
"""
