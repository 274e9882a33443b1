"""The users of the core: documents, the service, explanations, reports, conversion, and the bodies of commands."""
