"""What finds the things that people hold: its weights and card; see palmkit.models.segmentation."""
