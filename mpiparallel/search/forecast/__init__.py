"""What a placed network will do on its ranks, as values that can be shown: time, memory, communication, reasons."""
