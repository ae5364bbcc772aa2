"""Values that all packages share: messages, events, mail, roster, tasks, requests, ids and errors. No I/O."""
