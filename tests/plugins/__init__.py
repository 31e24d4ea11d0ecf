"""Packages of strangers: how they are found, chosen and refused."""
