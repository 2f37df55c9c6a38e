"""The `headrace` command: one small module per subcommand."""
