"""The larger portrait mask: its weights and its card; the recipe is palmkit.models.segmentation."""
