"""The native protocol's codec: frames, maps, and messages in them. Used by broker and client."""
