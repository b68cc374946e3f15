"""The web server of the pages: app, authentication, limits."""
