"""Files: scenarios (YAML or JSON), their schema and checks; reading and atomic writing."""
