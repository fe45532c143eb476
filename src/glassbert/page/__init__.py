"""The glass-box page: a local server around one model, and the page that it shows."""
