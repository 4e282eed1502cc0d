"""The CUDA toolchain of an environment: what builds of extensions need, find, and are told."""
