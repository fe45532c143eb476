"""Files of labelled text, in the formats that people have, to examples."""

from glassbert.data.readers.formats import FORMATS
from glassbert.data.readers.read import read_examples, stream_examples

__all__ = ["FORMATS", "read_examples", "stream_examples"]
