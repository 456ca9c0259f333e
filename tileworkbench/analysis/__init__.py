"""Questions about IR: bounds, uses, access, thread uniformity. An analysis never changes IR."""
