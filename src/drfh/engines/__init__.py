"""Real clusters, driven by the same brain: one package an engine."""
