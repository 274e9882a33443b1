"""The bodies of the commands that use trained translation models."""
