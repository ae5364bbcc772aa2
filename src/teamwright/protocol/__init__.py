"""The words: ids, blocks, events, mail, roster, task, errors.

The lowest room. Everything here is data and its spelling on disk or on a wire; nothing here opens a file,
waits, or knows that a model or a screen exists.
"""
