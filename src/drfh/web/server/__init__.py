"""The web server of the pages: application, authentication, limits."""
