"""The demo from its start to its end: started, followed and ended by one command."""
