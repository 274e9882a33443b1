"""Reports that compare translations of several systems on one HTML page."""
