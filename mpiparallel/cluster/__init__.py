"""What the cluster is made of: rank tables, hostfiles, the environment of a rank and its processor. Needs no MPI."""
