"""Translation models: architectures, their options, and the state of decoding."""
