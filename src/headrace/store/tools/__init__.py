"""Commands on a data directory without a broker."""
