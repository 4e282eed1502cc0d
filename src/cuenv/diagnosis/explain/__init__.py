"""Questions in the words of users, and the pages that answer them."""
