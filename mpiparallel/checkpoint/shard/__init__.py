"""The file of one rank: HDF5 for whoever reads it, read here without HDF5, with a digest over every byte."""
