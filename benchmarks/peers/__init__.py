"""Other people's systems on our data, each in an environment of its own."""
