"""Re-ranking a server's page on the device, from what the user just did."""
