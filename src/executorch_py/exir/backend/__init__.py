"""The interfaces of a backend: Partitioner (policy), BackendDetails (compilation), to_backend (mechanism)."""
