"""The line between the launcher and each rank: one TCP connection, over which a rank says how it ends.

A rank that dies says nothing, but its kernel closes the connection at once; so does the launcher's.
"""
