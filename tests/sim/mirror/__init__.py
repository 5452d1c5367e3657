"""One partition on its way to a copy with offsets of its own, with everything going wrong on both sides and between."""
