"""One label, several labels or a number for a text or a pair."""
