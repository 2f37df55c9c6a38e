"""Storage: the interfaces (api) and the engines behind them (log, sqlite, memory)."""
