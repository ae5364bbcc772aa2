"""Every asset that a run here would look at, and what becomes of each: used, ignored, waiting for trust, or broken."""
