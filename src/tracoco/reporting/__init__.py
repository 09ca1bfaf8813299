"""What a person looks at: curves, health, cases and pictures on one page, tables for a terminal."""
