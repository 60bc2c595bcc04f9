"""The larger hair mask: its weights and its card; the recipe is palmkit.models.segmentation."""
