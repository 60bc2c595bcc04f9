"""What the detectors' recipes share: network, losses, and compositions of training pictures."""
