"""Figures from what was observed: percentiles, histograms, series and usage. No I/O of its own."""
