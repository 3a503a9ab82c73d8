"""What every scenario shares: where arrays are made, how things are timed in turns, what a result looks like."""
