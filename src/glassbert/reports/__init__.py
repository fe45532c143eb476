"""What an evaluation looks like: tables on a terminal, and one page of HTML that needs nothing else."""
