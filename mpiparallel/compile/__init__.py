"""From a network to the program of one rank: trace, differentiate, place, localise, schedule, bind."""
