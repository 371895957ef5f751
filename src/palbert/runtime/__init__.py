"""The machine underneath: devices, precision, processes, CUDA graphs, files, seeds, progress."""
