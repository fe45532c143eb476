"""Files of labelled text, in the formats that people have, to examples."""

from glassbert.data.rows.formats import FORMATS
from glassbert.data.rows.read import read_examples, stream_examples

__all__ = ["FORMATS", "read_examples", "stream_examples"]
