"""What demo and trials stand on, without Hadoop: seconds, where Maven and daemons take minutes."""
