"""The panel "Play": a simulation to be watched."""
