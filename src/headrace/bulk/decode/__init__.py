"""Records to Arrow batches without a loop per message."""
