"""The machine underneath: devices, precision, seeds, progress."""
