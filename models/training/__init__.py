"""What the recipes share: the loop that trains, and pictures on the device."""
