"""How messages of the protocol look to a model: in plain words, taken from what is on disk behind them."""
