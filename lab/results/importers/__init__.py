"""Results of other tools and other machines, read into series: see formats.FORMATS."""
