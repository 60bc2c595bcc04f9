"""Make-up, hair dye and glasses on the faces of pictures and videos."""
