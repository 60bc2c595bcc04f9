"""People and their hair: masks of every pixel, and other backgrounds behind them."""
