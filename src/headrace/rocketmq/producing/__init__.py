"""What goes on inside a producer. Blocking and asyncio producers share all of it."""
