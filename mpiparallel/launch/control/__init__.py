"""The control channel between the launcher and each rank: one connection, over which a rank says how it ends.

A rank that dies says nothing, but its kernel closes the connection at once; so does the launcher's. Neither side
believes or does anything until the other has proven that it is of the job.
"""
