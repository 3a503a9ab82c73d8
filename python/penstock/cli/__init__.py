"""The verbs of the command line program that are written in Python."""
