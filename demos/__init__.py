"""Demos of the kits: small ones, a file each, and an application that shows everything."""
