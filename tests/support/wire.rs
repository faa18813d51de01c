//! Servers that misbehave, byte by byte.
