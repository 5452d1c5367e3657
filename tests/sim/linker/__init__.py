"""One partition on its way over a link, with everything going wrong on both sides and between."""
