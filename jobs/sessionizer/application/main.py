"""The application that spark-submit runs. It is the same as the command ``sessionizer``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Last, because the package that the driver's Python has or that Spark brings along comes first.
    sys.path.append(str(Path(__file__).absolute().parent.parent.parent))

    from sessionizer.cli import main

    main()
