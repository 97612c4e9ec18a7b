"""What a step costs: computing, communication, memory."""
