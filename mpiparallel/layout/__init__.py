"""Where the elements of a tensor live: integers only, no arrays, no MPI."""
