"""Files of labelled text, in the formats that people have, to examples."""
