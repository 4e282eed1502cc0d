"""Downloads, archives, bundles and prefixes on disk."""
