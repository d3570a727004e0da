"""Who is on the site, and what they do there."""
