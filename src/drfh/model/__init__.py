"""Clusters, users, jobs and scenarios: frozen, validated records."""
