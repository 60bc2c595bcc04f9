"""Where people are in a picture: its weights and its card; see palmkit.models.segmentation."""
