"""Guest images: recipes, a content-addressed cache of what they build, and seeds for one guest."""
