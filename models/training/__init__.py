"""Shared parts of the recipes: the training loop, and pictures on the device."""
