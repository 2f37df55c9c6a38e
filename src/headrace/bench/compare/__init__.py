"""Side by side with other clients."""
