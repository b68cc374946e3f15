"""The panel "Play": simulations of the scenario, replayed over time."""
