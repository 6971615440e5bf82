"""How a tensor becomes integers: torchao's classes, configurations, and the observers that choose scales."""
