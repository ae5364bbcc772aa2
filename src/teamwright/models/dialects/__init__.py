"""What services speak besides the Messages API, one API a pair of files: our blocks out, its events in.

`dialect` is the contract. Requests are converted from the canonical form (`canonical` reads it), and answers into the
events of the Messages API, so that one assembly (`models.assemble`) makes blocks of all of them.
"""
