"""What goes on inside a consumer. Blocking and asyncio consumers share all of it."""
