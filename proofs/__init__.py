"""The papers' claims as programs that can fail. Claims are added one module per paper."""
