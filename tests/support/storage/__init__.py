"""The commit log under test: by hand, under load, through power cuts."""
