"""The settings with which a driver is started, by any launcher."""
