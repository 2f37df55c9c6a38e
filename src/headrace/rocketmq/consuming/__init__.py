"""The inside of a consumer. Blocking and asyncio consumers share all of it."""
