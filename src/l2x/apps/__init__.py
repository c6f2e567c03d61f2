"""Programs on top of the library: command line, HTTP service, study with people."""
