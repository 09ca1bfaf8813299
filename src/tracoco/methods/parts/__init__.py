"""What two or more methods share; what one method needs alone is in its own file."""
