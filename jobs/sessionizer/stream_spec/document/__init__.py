"""The sections and fields of a stream spec, and the values that each field allows."""
