"""A real HDFS of many processes on this machine, with Suture beside it: what demo and trials stand on."""
