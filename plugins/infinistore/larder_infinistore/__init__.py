"""Larder's plug-in for InfiniStore: moves chunks between larderd and an InfiniStore server."""

NAME = "larder-infinistore"
