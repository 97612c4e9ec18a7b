"""The passes that cut a network into the stages of a pipeline and lay out each."""
