"""What may stand in a stream spec, section by section, and what each field allows."""
