"""Side-by-side measurements of the family against its peers: `broadsheet bench --list`."""
