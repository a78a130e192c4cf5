"""Larder's side of a plug-in: the parts that all plug-ins of this repository share."""
