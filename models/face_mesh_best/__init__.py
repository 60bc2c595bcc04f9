"""The larger face mesh: its weights and card; the recipe is palmkit.models.face_mesh."""
