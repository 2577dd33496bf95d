"""The version, equal to meson.build's (tests/package checks it)."""
VERSION = "0.1.0"
