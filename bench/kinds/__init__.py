"""One module per kind of scenario; each has `run(scenario, setting) -> Result`."""
