"""Reader of Google's cluster trace of 2011."""
