"""Larder's plug-in for Mooncake: moves chunks between larderd and a Mooncake pool."""

NAME = "larder-mooncake"
