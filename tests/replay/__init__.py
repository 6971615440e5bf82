"""The replay: what a tree of sources makes of many models, recorded and compared with another tree."""
