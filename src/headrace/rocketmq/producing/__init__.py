"""The inside of a producer. Blocking and asyncio producers share all of it."""
