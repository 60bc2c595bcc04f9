"""The larger face detector: its weights and card; the recipe is palmkit.models.face_detector."""
