"""Branches of a table: ordinary Delta tables that begin with the rows of one of its versions, and copy no file.

A branch lies in ``_branches/<name>/`` of its table. Its log names the table's files by absolute paths, and its own
files below its own folder. Publishing is one commit of the table that names the branch's files where they are.
"""
