"""The search for strategies: what a step costs on a machine, and which cuts make it cheap; pure, without MPI."""
