"""Where the record lies. Everything above knows the port, never a driver."""
