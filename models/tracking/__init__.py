"""How well the kits keep the ids of faces and hands: clips made from photos, and what they show."""
