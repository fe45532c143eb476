"""Model folders: reading, writing and converting the formats that people have."""
