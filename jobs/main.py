"""The application that spark-submit runs. It is the same as the command ``sessionizer``."""

from sessionizer.cli import main

if __name__ == "__main__":
    main()
