"""One file per verb group; thin: parse, one library call, print."""
