"""The traced program: operators on global shapes, differentiated, scheduled and run."""
