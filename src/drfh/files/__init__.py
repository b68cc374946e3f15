"""Files: scenarios (YAML or JSON), their checks; bounded reading, atomic writing."""
