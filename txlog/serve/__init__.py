"""`txlog serve`: a service that gathers the rows of many clients into few commits.

In: batches of rows by Arrow Flight and HTTP. Out: one file and one commit for all rows of a table that wait, and an
answer to each client when its rows are in the table, or in the service's journal.
"""
