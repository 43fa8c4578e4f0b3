"""A file for this account alone is so at every moment, whatever stands in its folder."""

import os
import stat
import struct
from pathlib import Path

import pytest

from copriv.cli.output import replace_own_file

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")


def test_what_was_left_in_the_folder_gets_no_private_number(tmp_path: Path) -> None:
    """A draft of a killed process with the same number, open to others, or a link that another account put there."""
    file, elsewhere = tmp_path / "verdict.json", tmp_path / "elsewhere"
    draft = tmp_path / f".verdict.json.{os.getpid()}"
    draft.write_bytes(b"")
    draft.chmod(0o666)
    with draft.open("rb") as opened:
        replace_own_file(file, b"private")
        assert opened.read() == b""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    draft.unlink(missing_ok=True)
    elsewhere.write_bytes(b"")
    draft.symlink_to(elsewhere)
    replace_own_file(file, b"private again")
    assert (file.read_bytes(), elsewhere.read_bytes()) == (b"private again", b"")


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="ACLs of Linux")
def test_a_folder_whose_files_a_team_may_read_keeps_it_from_a_private_one(tmp_path: Path) -> None:
    """A default ACL (`setfacl -d -m g::rx,o::rx`) takes the place of the umask."""

    def entry(tag: int, permissions: int) -> bytes:
        return struct.pack("<HHI", tag, permissions, 0xFFFFFFFF)

    try:
        os.setxattr(
            tmp_path, "system.posix_acl_default", struct.pack("<I", 2) + entry(1, 7) + entry(4, 5) + entry(0x20, 5)
        )
    except OSError:
        pytest.skip("this file system has no ACLs")
    assert stat.S_IMODE(replace_own_file(tmp_path / "own.json", b"private").stat().st_mode) == 0o600
