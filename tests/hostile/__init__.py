"""Bad input and its messages: the rows of docs/errors.md by subject. `test_hostile.py` tests them and writes the document."""
