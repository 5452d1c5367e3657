"""Who may do what. Holds no state and needs no driver: plain functions and values."""
