"""The knowledge base: tables of drivers, toolkits, GPUs and PyTorch builds, how they are read and looked up."""
