"""The finder of people in a picture: its weights and card; see palmkit.models.segmentation."""
