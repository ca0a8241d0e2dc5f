"""Bad input and what is said of it: the rows of docs/errors.md by subject. `test_hostile.py` tests them and writes them down."""
