"""Figures and offline pages: they show numbers and compute none."""
