"""An installed environment (conda's prefix): what it holds, whether it works, and what would mend it."""
