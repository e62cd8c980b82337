"""The settings of a server and of the command line: from a file and the environment."""
