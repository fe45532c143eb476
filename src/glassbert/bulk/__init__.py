"""Embed or predict many files, on several processes or machines; a run that was killed resumes."""
