"""The HTTP foundation: what any server of ours needs, whatever it serves."""
