"""Embed or predict many files, on several processes or machines; a killed run can be resumed."""
