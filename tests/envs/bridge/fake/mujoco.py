"""Stands in for MuJoCo's package: writes warnings to a file in the working folder, unless it is given a function for them."""

_warning = None


def set_mju_user_warning(function):
    global _warning
    _warning = function


def warn(text):
    if _warning is not None:
        _warning(text)
        return
    with open("MUJOCO_LOG.TXT", "a", encoding="utf-8") as file:
        file.write(text + "\n")
