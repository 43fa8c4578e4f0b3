"""`python -m copriv`: the command line."""

from copriv.cli import main

if __name__ == "__main__":  # not where a worker process imports this again
    main()
