"""Why did it say that: what in a text, or in the model, an answer rests on."""
