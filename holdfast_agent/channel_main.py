"""What `python3 <the agent channel>` starts: the bundle places these bytes as `__main__.py` beside `holdfast_agent/`.

Written so that any Python can parse it: an image whose python3 is too old is told so in words, where a newer syntax
would give it a SyntaxError in a file that its owner has never seen.
"""

# The oldest of those Pythons lack pathlib and format strings.
# ruff: noqa: PTH103, PTH112, PTH118, PTH123, UP031
import os
import sys

OLDEST = (3, 9)
EXIT_BAD_LAUNCH = 87  # holdfast_agent.contract, which an old Python cannot import


def refuse_old_python(version, base):
    # type: (tuple[int, ...], str) -> int
    """Exit code for this Python: 0 where it will do, else 87 with the reason in the failure file and on stderr."""
    if version[:2] >= OLDEST:
        return 0
    words = "Holdfast: the image's python3 is %d.%d and the agent needs %d.%d or newer; use a newer image" % (
        version[0],
        version[1],
        OLDEST[0],
        OLDEST[1],
    )
    sys.stderr.write(words + "\n")
    folder = os.path.join(base, "output")
    if not os.path.isdir(folder):
        os.makedirs(folder)
    with open(os.path.join(folder, "failure"), "w") as failure:
        failure.write(words)
    return EXIT_BAD_LAUNCH


if __name__ == "__main__":
    code = refuse_old_python(tuple(sys.version_info[:2]), os.environ.get("SAGEMAKER_BASE_DIR") or "/opt/ml")
    if code == 0:
        from holdfast_agent.launch import main

        code = main()
    sys.exit(code)
