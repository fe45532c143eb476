"""Raw text to shards of ids."""
