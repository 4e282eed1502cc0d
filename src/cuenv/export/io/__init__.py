"""Reading the tables of images and actions that ship with the package."""
