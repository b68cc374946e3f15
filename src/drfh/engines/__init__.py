"""Real clusters around the scheduler: one package an engine."""
