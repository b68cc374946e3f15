"""The panel "Runs": figures of run directories."""
