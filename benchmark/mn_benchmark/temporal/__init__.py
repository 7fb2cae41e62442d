"""What the suite `temporal` is made of: facts that nobody said, and what is measured on them."""
