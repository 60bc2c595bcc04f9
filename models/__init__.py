"""The shipped models and the recipes that train them."""
