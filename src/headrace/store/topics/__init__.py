"""The topic engine SPI and what engines share."""
