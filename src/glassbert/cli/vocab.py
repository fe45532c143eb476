"""`glassbert vocab`: learn, inspect and extend vocabularies."""

import cyclopts

app = cyclopts.App(name="vocab", help="Learn, inspect and extend vocabularies.")
