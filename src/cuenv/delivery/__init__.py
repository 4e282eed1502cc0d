"""The environment where people run it: images, bundles, toolkits of the machine."""
